package notify_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/notify"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks/hookstest"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// hooked is a cluster with hooks, over a store and a key that outlive it.
type hooked struct {
	t     *testing.T
	store *bustest.MemStore
	key   *seal.Key
	b     *backend.Backend
	*hookstest.Receiver
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	key, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{t: t, store: bustest.NewMemStore(), key: key, Receiver: hookstest.NewReceiver(t)}
	h.Cluster = "edge"
	t.Cleanup(func() { h.b.HookKeeper.Close() })
	h.start()
	return h
}

// start is a restart of the process, the second time.
func (h *hooked) start() {
	h.t.Helper()
	if h.b != nil {
		h.b.HookKeeper.Close()
	}
	c := clustertest.NewCore(h.t, h.store)
	c.Key = h.key
	h.b = &backend.Backend{Core: c, Clock: pki.OpenClock(h.t.TempDir()), Book: &people.Book{}}
	if err := notify.Open(h.t.Context(), c, hookstest.Options(h.b.Clock.Now)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hooked) set(namespace, name string, spec wire.HookSpec) {
	h.t.Helper()
	ctx := access.With(h.t.Context(), access.Who{Name: "admin/ann", Admin: true})
	if _, err := h.b.SetHook(ctx, namespace, name, h.Request(spec)); err != nil {
		h.t.Fatal(err)
	}
}

// settled waits until all was delivered.
func (h *hooked) settled() {
	h.t.Helper()
	hookstest.Settle(h.t, h.b.HookKeeper)
}

func (h *hooked) pass() {
	h.t.Helper()
	if _, err := controller.Pass(h.t.Context(), h.b.Core, time.Now(), true); err != nil {
		h.t.Fatal(err)
	}
}

// heard is what the only worker says of an instance.
func (h *hooked) heard(phase wire.Phase, more func(*wire.InstanceStatus)) {
	h.t.Helper()
	core.Do(h.b.Core, func(m *state.Model) {
		w, i := m.Workers["w1"], m.Insts["app.web.0"]
		st := wire.InstanceStatus{V: wire.Version, ID: i.ID, Incarnation: i.Incarnation, Phase: phase}
		if more != nil {
			more(&st)
		}
		w.Status[i.ID] = st
		w.EverHeard, w.Connected, w.Heard = true, true, time.Now()
	})
	h.pass()
}

func (h *hooked) worker() {
	h.t.Helper()
	rec := state.WorkerRecord{V: wire.Version,
		Info: wire.WorkerInfo{Name: "w1", Runtimes: []string{"process"},
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 10 << 30}}}
	data, err := json.Marshal(rec)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.store.Put(h.t.Context(), state.KeyWorker+"w1", data); err != nil {
		h.t.Fatal(err)
	}
}

// What a cluster decides, and what is changed at its site, is told once, whether this process
// saw it or the one before did.
func TestAClustersHooksAreToldOnce(t *testing.T) {
	h := newHooked(t)
	ctx := access.With(t.Context(), access.Who{Name: "user/op", Admin: true})
	h.worker()
	h.start()
	h.set("", "all", wire.HookSpec{On: []string{"*"}})
	if err := uplink.FromRoot(h.b.Core).Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 1)},
		wire.Rev{Inc: "root", N: 7},
		nil); err != nil {
		t.Fatal(err)
	}
	h.b.M.Workers["w1"].EverHeard, h.b.M.Workers["w1"].Connected = true, true
	h.pass()
	h.heard(wire.PhaseRunning, func(st *wire.InstanceStatus) { st.Ready = true })
	h.Want("instance.running instance/app.web.0 Running: started")

	if _, err := h.b.Scale(ctx, "app", "web", 2); err != nil {
		t.Fatal(err)
	}
	m := <-h.News
	if m.Type != event.LocalChanged.String() || m.Data.Subject != "local/app.web" ||
		m.Data.What != "web: scaled 1 → 2" || m.Data.By != "user/op" || m.Data.Source != "cluster/edge" ||
		m.Data.Namespace != "default" {
		t.Errorf("came %+v", m)
	}
	h.settled()
	h.start() // and all of it is known already
	if err := h.b.DropLocal(ctx, "app", "web"); err != nil {
		t.Fatal(err)
	}
	h.Want("local.changed local/app.web web: taken back")
	if _, err := h.b.Scale(ctx, "app", "web", 3); err != nil {
		t.Fatal(err)
	}
	h.Want("local.changed local/app.web web: scaled 1 → 3")
	other := clustertest.ShareChange(t, 2)
	other.Value = []byte(strings.ReplaceAll(string(other.Value), `"spread":"soft"`, `"spread":"none"`))
	if err := uplink.FromRoot(h.b.Core).Take(ctx, true, []wire.Change{other}, wire.Rev{Inc: "root", N: 8},
		nil); err != nil {
		t.Fatal(err)
	}
	h.heard(wire.PhaseRunning, nil)
	h.Want("local.overruled local/app.web web: what user/op changed here (scaled 1 → 3) gives way to the root: " +
		"revision 1 with 2 instances here")

	h.settled()
	// What happens while its receiver is away is told when it is back, by another process.
	h.Answer(http.StatusServiceUnavailable, "")
	h.heard(wire.PhaseExited, func(st *wire.InstanceStatus) {
		st.Why, st.LastExit = "exited with 7",
			&wire.Exit{Code: 7}
	})
	h.Want("instance.failed instance/app.web.0 Failed: exited with 7")
	h.Answer(http.StatusOK, "")
	h.start()
	h.Want("instance.failed instance/app.web.0 Failed: exited with 7",
		"instance.waiting instance/app.web.0 Requested: 1 worker: 1 is avoided")
	h.settled()

	core.Do(h.b.Core, func(*state.Model) {
		h.b.EventRing.Note(time.Now(), event.WorkerLost, "edge/w1", "suspect")
	})
	h.Want("worker.lost worker/edge/w1 suspect")
	h.settled()
	h.start()
	core.Do(h.b.Core, func(*state.Model) {
		for range 2 {
			h.b.EventRing.Note(time.Now(), event.WorkerBack, "edge/w1", "reports again")
		}
	})
	h.Want("worker.back worker/edge/w1")

	// An instance, a rollout and a job that are gone before anybody can note it.
	for _, key := range []string{state.KeyInstance + "app.web.0", state.KeyInstance + "app.web.1"} {
		if _, err := h.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	h.settled()
	h.start()
	m = <-h.News
	if m.Type != event.InstanceEnded.String() || m.Data.Subject != "instance/app.web.0" ||
		m.Data.Namespace != "default" {
		t.Errorf("came %+v", m)
	}
	h.settled()
	core.Do(h.b.Core, func(*state.Model) {
		notify.TellRollout(h.b.Core, "app.web",
			&wire.RolloutReport{App: "app", Service: "web", Revision: 2, Phase: wire.RolloutFailed,
				Why: "no", Ended: time.Now()}, true)
		notify.TellJob(h.b.Core, "app.web", &wire.JobReport{App: "app", Service: "web",
			Run: wire.JobRun{N: 2, Ended: time.Now(), Outcome: wire.JobFailed, Why: "no"}},
			func(*wire.JobRun) bool { return true })
	})
	h.Want("rollout.failed rollout/app.web failed: no", "job.failed job/app.web run 2 is failed: no")
}

// What is changed at the site is asked about, and what is refused changes nothing.
func TestAClustersGates(t *testing.T) {
	h := newHooked(t)
	ctx := access.With(t.Context(), access.Who{Name: "user/op", Admin: true})
	if err := uplink.FromRoot(h.b.Core).Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 1)},
		wire.Rev{Inc: "root", N: 7},
		nil); err != nil {
		t.Fatal(err)
	}
	const own = "application: own\nservices: {web: {command: [x]}}\n"
	h.set("default", "gate", wire.HookSpec{Before: wire.Gates})
	if _, err := h.b.Scale(ctx, "app", "web", 2); err != nil {
		t.Fatal(err)
	}
	h.Want("before.scale application/app web is to have 2 replicas at this site")
	h.Answer(http.StatusOK, `{"allow": false, "reason": "not now"}`)
	rev := h.store.Rev()
	for what, do := range map[string]func() error{
		"apply":   func() error { _, err := h.b.Apply(ctx, []byte(own), false); return err },
		"delete":  func() error { return h.b.Delete(ctx, "app") },
		"scale":   func() error { _, err := h.b.Scale(ctx, "app", "web", 4); return err },
		"restart": func() error { _, err := h.b.Restart(ctx, "app", apiv1.RestartRequest{}); return err },
		"undo":    func() error { return h.b.DropLocal(ctx, "app", "web") },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Errorf("%s: %v", what, err)
		}
		h.Want("before." + what)
	}
	if s := h.b.M.Shares["app.web"]; h.store.Rev() != rev || s == nil || s.Min != 2 {
		t.Errorf("something was changed: revision %d after %d, %+v", h.store.Rev(), rev, s)
	}
	if res, err := h.b.Apply(ctx, []byte(own), true); err != nil || res.Change != "created" {
		t.Errorf("a rehearsal is asked about: %+v, %v", res, err)
	}
	h.Answer(http.StatusOK, `{"allow": true}`)
	if _, err := h.b.Apply(ctx, []byte(own), false); err != nil {
		t.Fatal(err)
	}
	if m := <-h.News; m.Data.Descriptor != own || m.Data.By != "user/op" || m.Data.Source != "cluster/edge" ||
		m.Data.Revision <= wire.LocalRevisions {
		t.Errorf("it was asked %+v", m)
	}
	for _, on := range []string{"application.applied", "cluster.*", "nothing"} {
		if _, err := h.b.SetHook(ctx, "", "x",
			apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://x.example", On: []string{on}},
				Secret: hookstest.Secret}); err == nil || on != "nothing" &&
			!strings.Contains(err.Error(), "an event of a root") {
			t.Errorf("%s: %v", on, err)
		}
	}
	if _, err := h.b.SetHook(ctx, "a b", "x", apiv1.HookRequest{}); err == nil {
		t.Error("it takes any name of a namespace")
	}
}

// Before a wave the cluster's own hooks are asked, then the root's; of what the root does not
// answer the hook's own setting says what it means.
func TestAWaveIsAskedAboutHereAndAtTheRoot(t *testing.T) {
	h := newHooked(t)
	q := &rollouts.WaveAsk{Data: wire.HookData{Operation: wire.GateWave, Subject: "rollout/app.web",
		Namespace: "default", Application: "app", Service: "web", Cluster: "edge",
		Wave: &wire.HookWave{Number: 2, Of: 3}}}
	ask := func(root string) (warnings, refused, silent string) {
		q.Root = root
		w, refused, silent := notify.Ask(t.Context(), h.b.Core, h.b.HookKeeper, q)
		return strings.Join(w, "; "), refused, silent
	}
	if w, r, s := ask(wire.HookClosed); w != "" || r != "" ||
		!strings.HasPrefix(s, "the root, whose hooks are to be asked, does not answer; without") {
		t.Errorf("%q, %q, %q", w, r, s)
	}
	if w, r, s := ask(wire.HookOpen); r != "" || s != "" || !strings.Contains(w, "it was done all the same") {
		t.Errorf("%q, %q, %q", w, r, s)
	}
	var problem error
	var heard wire.HookData
	u := exchange.Upper{Conn: h.b.Up, Log: h.b.Logger, Peer: func(string) string { return "edge" }}
	stop, err := u.ServeGates(exchange.ClusterSubjects().Gate,
		func(_ context.Context, peer string, d wire.HookData) ([]string, error) {
			heard = d
			return []string{"from " + peer}, problem
		})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	h.set("default", "gate", wire.HookSpec{Before: []string{wire.GateWave}})
	if w, r, s := ask(wire.HookClosed); w != "from edge" || r != "" || s != "" || heard.Wave == nil ||
		heard.Wave.Number != 2 {
		t.Errorf("%q, %q, %q; the root heard %+v", w, r, s, heard)
	}
	h.Want("before.wave rollout/app.web")
	problem = wire.Problemf(403, wire.CodeHookRefused, "", "no", "hook boss: never")
	if _, r, s := ask(wire.HookOpen); r != "hook boss: never" || s != "" {
		t.Errorf("%q, %q", r, s)
	}
	h.Want("before.wave")
	problem = wire.Problemf(503, wire.CodeHookSilent, "", "no", "hook boss: no answer in 5s")
	if _, r, s := ask(wire.HookOpen); r != "" || s != "hook boss: no answer in 5s" {
		t.Errorf("%q, %q", r, s)
	}
	h.Want("before.wave")
	h.Answer(http.StatusOK, `{"allow": false, "reason": "too slow"}`)
	heard = wire.HookData{}
	if _, r, s := ask(wire.HookClosed); !strings.HasSuffix(r, "asked before wave of rollout/app.web: too slow") ||
		s != "" || heard.Wave != nil {
		t.Errorf("%q, %q; the root heard %+v", r, s, heard)
	}
}
