package cluster

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// immutable are the values of a model that a clone may share: records, which are replaced
// as a whole, and what is safe for concurrent use and holds nothing but what was worked
// out. TestAnyTroubleEndsWell holds them to it.
func immutable(at string, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch dir, pkg := path.Split(t.PkgPath()); {
	case t == reflect.TypeFor[time.Time]():
		return true
	case pkg == "wire" || pkg == "api" || pkg == "backup" || pkg == "seal" || pkg == "place" || pkg == "enroll" || pkg == "coord" || pkg == "lease":
		return dir != ""
	case pkg == "cluster" && t.Kind() == reflect.Struct:
		return slices.Contains([]string{
			"local", "conflict", "again", "rolling", "scaled", "profile", "jobRecord", "member", "upgradeRecord", "upgradedRecord",
			"acmeRecord", "workerRecord", "workerLease", "siteNumber", "want", "counsel", "uses",
			"schedules", // a cache with a lock of its own
		}, t.Name())
	}
	if pkg := path.Base(t.PkgPath()); pkg == "table" && t.Name() != "DB" && !strings.HasPrefix(t.Name(), "tableRows") {
		return true // what the schema says
	}
	return at == "model.Model.Peer" || at == "model.Model.Workers[].Says" // the same
}

// all is all of a model, as text, but what it has worked out of the rest and remembers.
func (m *model) all() string {
	return clonetest.Text(m, func(at string, t reflect.Type) bool {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return path.Base(t.PkgPath()) == "table" && immutable(at, t) || t == reflect.TypeFor[schedules]() || slices.Contains([]string{"model.Model.byName", "model.Model.listed", "model.Model.Workers[].Says"}, at)
	})
}

// A clone shares no map, slice or pointer with its model that anybody modifies.
func TestACloneSharesNothing(t *testing.T) {
	m := newModel("edge", true, time.Now())
	clonetest.Fill(m, immutable)
	m.Bind(state.Schema.New())
	m.attach()
	for _, at := range clonetest.Shared(m, m.clone(), immutable) {
		t.Errorf("%s is shared with the clone: see model.clone", at)
	}
}

// A cluster goes on while it plans: what its workers say meanwhile is neither read nor
// written by the rehearsal. The race detector judges; without it, the runtime.
func TestAPlanWhileWorkersReport(t *testing.T) {
	s := newSite(t)
	s.c.m.Peer = opaqueNames("secret")
	s.give(web(2, "a"), 2)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			s.c.mu.Lock()
			w := fmt.Sprint("w", 1+n%2)
			s.c.m.uses[w] = &uses{marks: map[string]bool{usesApp + "app": n%4 < 2}}
			s.c.m.plugins[w], s.c.m.Leaving[w] = true, true
			delete(s.c.m.plugins, w)
			delete(s.c.m.Leaving, w)
			s.c.m.flow("app.web", w, &wire.ServiceDemand{Requests: 100}, time.Second, s.now)
			s.c.m.Workers[w].Inbox.Accept(wire.Report{V: wire.Version, To: wire.Rev{Inc: "i", N: n}, Changes: []wire.Change{{Key: fmt.Sprint(n)}}})
			s.c.m.Peer(fmt.Sprint(n % 100))
			s.c.mu.Unlock()
		}
	}()
	for n := range 50 {
		here := 1 + n%3
		if _, err := s.c.planShares(t.Context(), s.question(web(here, fmt.Sprint(n)), here), 0, s.now); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

// What a rehearsal does stays in it: here an instance begins elsewhere, as the worker that
// had its volume was removed, which leaves a record of that volume.
func TestARehearsalLeavesNothingInTheModel(t *testing.T) {
	s := newSite(t)
	source := []byte("application: app\nservices: {db: {command: [x], volumes: [{name: data, path: data}]}}\n")
	s.give(source, 1)
	i := *s.c.m.Insts["app.db.0"]
	i.State, i.Worker, i.Pinned, i.Former = wire.ClusterScheduled, "", "", "gone"
	s.c.m.Insts[i.ID] = &i
	before := s.c.m.all()
	m := s.c.m.clone()
	m.rehearse(t.Context(), nil, s.now)
	if len(m.leftVolumes) != 1 {
		t.Fatalf("the rehearsal notes no volume: %+v", m.Insts[i.ID])
	}
	if after := s.c.m.all(); after != before {
		t.Errorf("the model was\n%s\nand is\n%s", before, after)
	}
}
