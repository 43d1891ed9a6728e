package clustertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
)

// Site is a cluster whose root is away, with two workers that do what they are
// told, on a store of its own.
type Site struct {
	*Sim
	Core  *core.Core
	Store *bustest.MemStore
	Rev   uint64
}

const webFile = `application: app
services:
  web:
    command: [x]
    replicas: %d
    env: {MARK: %q}
    ports: [{name: http, ingress: {host: web.test}}]
`

// NewSite is a cluster with the workers w1 and w2.
func NewSite(t *testing.T) *Site {
	t.Helper()
	store := bustest.NewMemStore()
	c := NewCore(t, store)
	s := &Site{Core: c, Store: store, Sim: &Sim{T: t, Model: c.M, Now: time.Now(), Disk: map[string][]byte{},
		Workers: map[string]*Worker{}}}
	for _, w := range []string{"w1", "w2"} {
		s.AddWorker(w)
		if _, err := store.Put(t.Context(), state.KeyWorker+w, s.Disk[state.KeyWorker+w]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Web is the descriptor of app with so many replicas of its service web.
func Web(replicas int, mark string) []byte { return fmt.Appendf(nil, webFile, replicas, mark) }

// Give is what the root says from now on about app: nil nothing.
func (s *Site) Give(source []byte, here int) {
	s.T.Helper()
	s.Rev++
	to := wire.Rev{Inc: "root", N: s.Rev}
	var changes []wire.Change
	if source != nil {
		spec, _, err := descriptor.Parse("", source)
		if err != nil {
			s.T.Fatal(err)
		}
		for name, svc := range spec.Services {
			sh := wire.Share{V: wire.Version, App: spec.Application, Service: name, Revision: s.Rev, Min: here,
				Max: here, Spec: svc, Ordinals: []wire.Span{{To: here}}}
			changes = append(changes, wire.Change{Key: "share." + spec.Application + "." + name,
				Value: JSON(s.T, sh)})
		}
	}
	if err := uplink.FromRoot(s.Core).Take(s.T.Context(), true, changes, to, nil); err != nil {
		s.T.Fatal(err)
	}
	s.Settle()
}

// Settle lets everybody act until nothing changes any more.
func (s *Site) Settle() {
	s.T.Helper()
	for range 12 {
		s.Now = s.Now.Add(time.Second)
		for name, f := range s.Workers {
			f.Act(s.Sim, name)
		}
		if _, err := controller.Pass(s.T.Context(), s.Core, s.Now, true); err != nil {
			s.T.Fatal(err)
		}
		s.check()
	}
}

// ApplyLocal applies a descriptor at the site.
func (s *Site) ApplyLocal(source []byte) apiv1.ApplyResult {
	s.T.Helper()
	r, err := edits.ApplyLocal(s.T.Context(), s.Core, source, false, s.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Settle()
	return r
}

// ScaleLocal scales app.web at the site.
func (s *Site) ScaleLocal(n int) {
	s.T.Helper()
	if _, err := edits.ScaleLocal(s.T.Context(), s.Core, "app", "web", n, s.Now); err != nil {
		s.T.Fatal(err)
	}
	s.Settle()
}

// Running are the values of MARK that run, by instance.
func (s *Site) Running() map[string]string {
	out := map[string]string{}
	for name, f := range s.Workers {
		for id, st := range f.Statuses {
			if o := s.Core.M.Orders[name+"."+id]; o != nil && st.Phase == wire.PhaseRunning {
				out[id] = o.Spec.Env["MARK"]
			}
		}
	}
	return out
}

// Starts is how many instances all workers have started so far.
func (s *Site) Starts() (n int) {
	for _, f := range s.Workers {
		n += f.Starts
	}
	return n
}

// WantRunning compares Running with ids.
func (s *Site) WantRunning(what string, ids map[string]string) {
	s.T.Helper()
	if got := fmt.Sprint(s.Running()); got != fmt.Sprint(ids) {
		s.T.Fatalf("%s: %s runs, want %v\n%s", what, got, ids, s.Dump())
	}
}

// Reopen is a new process on the same store.
func (s *Site) Reopen() {
	s.T.Helper()
	c := NewCore(s.T, s.Store)
	s.Core, s.Model = c, c.M
}
