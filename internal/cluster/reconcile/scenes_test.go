package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Scenes of many workers over minutes of virtual time, with the invariants of sim.check
// after every pass.

// bigSite is a site of n workers with room for ten instances each.
func bigSite(t *testing.T, n int) (s *clustertest.Sim, names []string) {
	for w := range n {
		names = append(names, fmt.Sprintf("w%03d", w))
	}
	s = clustertest.NewSim(t, names...)
	s.Tick(time.Second)
	return s, names
}

// wantOnce holds that all instances of services run, each once.
func wantOnce(s *clustertest.Sim, what string, services, each int) {
	s.T.Helper()
	for n := range services {
		svc := fmt.Sprint("s", n)
		if run, ready := s.Running(svc), s.Answering(svc); run != each || ready != each {
			s.T.Fatalf("%s: %d of %d run of %s, %d answer\n%s", what, run, each, svc, ready, s.Dump())
		}
	}
	for id, i := range s.Model.Insts {
		if i.State != wire.Running || i.Shadow != nil || i.Leaving != nil || i.Moving != nil {
			s.T.Fatalf("%s: %s is %+v", what, id, i)
		}
	}
}

// A tenth of the workers goes each minute, for half a minute to a minute and a half, with
// all that ran there, while a service is deployed every twenty seconds. What is deployed
// answers nearly all the time, nothing is lost, and nothing runs twice in the end.
func TestChurnWhileDeploying(t *testing.T) {
	const workers, minutes, each = 60, 10, 10
	s, names := bigSite(t, workers)
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a scene that can be repeated
	back := map[string]time.Time{}
	services, gone := 0, 0
	asked, answered := 0, 0
	for second := range minutes * 60 {
		// One every ten seconds of sixty workers is a tenth each minute.
		if w := names[rng.IntN(workers)]; second%10 == 0 && s.Workers[w].Alive {
			s.Workers[w].Alive = false
			back[w] = s.Now.Add(30*time.Second + time.Duration(rng.IntN(60))*time.Second)
			gone++
		}
		for w, at := range back {
			if s.Now.After(at) {
				s.Workers[w].Alive = true
				delete(back, w)
			}
		}
		if second%20 == 0 {
			s.Share(fmt.Sprint("s", services), each,
				func(v *api.Service) { v.ReplaceAfter = new(api.Duration(time.Second)) })
			services++
		}
		s.Tick(time.Second)
		for n := range services - 1 {
			asked += each
			answered += s.Answering(fmt.Sprint("s", n))
		}
	}
	if gone < minutes*workers/10-10 {
		t.Fatalf("only %d workers went", gone)
	}
	// One worker of sixty is gone for as long as it takes to notice and to place anew.
	if part := float64(answered) / float64(asked); part < 0.99 {
		t.Errorf("%.4f of the instances answered while workers went, want 0.99", part)
	}
	for w := range back {
		s.Workers[w].Alive = true
	}
	s.Ticks(20, time.Second)
	wantOnce(s, fmt.Sprintf("after %d workers went", gone), services, each)
}

// Workers that say they have a hundred times what they have are given more than they can
// run, and refuse it. What they refuse is soon elsewhere, and nobody who tells the truth
// is disturbed by it.
func TestManyWorkersLieAboutTheirRoom(t *testing.T) {
	const workers, liars, services, each = 60, 12, 20, 20
	s, names := bigSite(t, workers)
	s.Share("s0", each, nil)
	s.Ticks(3, time.Second)
	wantOnce(s, "before anybody lies", 1, each)
	honest := map[string]int{}
	for id, i := range s.Model.Insts {
		if slices.Index(names, i.Worker) >= liars {
			honest[id] = i.Incarnation
		}
	}
	if len(honest) == 0 {
		t.Fatal("nothing runs on workers that tell the truth")
	}
	for _, w := range names[:liars] {
		s.Workers[w].Room = &api.Resources{CPU: 200, Memory: 1 << 30, Disk: 10 << 30} // two instances
		info := &s.Model.Workers[w].Info
		info.Capacity.CPU, info.Capacity.Memory = 100*info.Capacity.CPU, 100*info.Capacity.Memory
		s.Store(state.KeyWorker+w, s.Model.Workers[w].WorkerRecord)
	}
	for n := 1; n < services; n++ {
		s.Share(fmt.Sprint("s", n), each, nil)
	}
	took := 0
	for ; took < 60; took++ {
		s.Tick(time.Second)
		n := 0
		for k := range services {
			n += s.Answering(fmt.Sprint("s", k))
		}
		if n == services*each {
			break
		}
	}
	wantOnce(s, fmt.Sprintf("%d s after they were deployed", took), services, each)
	refused := 0
	for _, f := range s.Workers {
		refused += f.Refusals
	}
	if refused == 0 {
		t.Fatal("nobody was given what it does not have")
	}
	t.Logf("%d instances, %d refusals, all run after %d s", services*each, refused, took)
	if took > 15 {
		t.Errorf("it took %d s until all ran, with %d refusals", took, refused)
	}
	for id, n := range honest {
		if i := s.Instance(id); i.Incarnation != n {
			t.Errorf("%s ran on %s, which tells the truth, and was started again: %+v", id, i.Worker, i)
		}
	}
}

// Half of the workers are cut off and go on with what they run, which is replaced
// meanwhile, and while more is deployed: when they are back half of everything runs twice,
// and soon once, at the originals or the replacements as each service says, and answers
// all the time.
func TestTwiceAfterWorkersWereCutOff(t *testing.T) {
	const workers, services, each = 60, 20, 10
	s, names := bigSite(t, workers)
	deploy := func(n int) {
		s.Share(fmt.Sprint("s", n), each, func(v *api.Service) {
			v.ReplaceAfter, v.OnReturn = new(api.Duration(5*time.Second)), []string{"original", "replacement"}[n%2]
		})
	}
	for n := range services / 2 {
		deploy(n)
	}
	s.Ticks(5, time.Second)
	before := map[string]string{}
	for id, i := range s.Model.Insts {
		before[id] = i.Worker
	}
	cut := map[string]bool{}
	for n, w := range names {
		if n%2 == 0 {
			cut[w] = true
			s.Workers[w].Linked = false
		}
	}
	for n := services / 2; n < services; n++ {
		deploy(n)
		s.Ticks(2, time.Second)
	}
	s.Ticks(10, time.Second)
	twice := 0
	for n := range services {
		twice += s.Running(fmt.Sprint("s", n)) - each
	}
	lost := 0
	for _, w := range before {
		if cut[w] {
			lost++
		}
	}
	if lost == 0 || twice != lost {
		t.Fatalf("%d run twice, want the %d that were on the other side\n%s", twice, lost, s.Dump())
	}
	for w := range cut {
		s.Workers[w].Linked = true
	}
	for range 30 {
		s.Tick(time.Second)
		for n := range services {
			if ready, _ := s.Endpoints(fmt.Sprint("s", n)); ready < each {
				t.Fatalf("s%d: %d answer while it is settled\n%s", n, ready, s.Dump())
			}
		}
	}
	wantOnce(s, "after all are back", services, each)
	for id, w := range before {
		var n int
		if _, err := fmt.Sscanf(id, "app.s%d.", &n); err != nil {
			t.Fatal(err)
		}
		is := s.Instance(id).Worker
		if want := n%2 == 0 || !cut[w]; (is == w) != want {
			t.Errorf("%s was on %s and is on %s; cut off: %v", id, w, is, cut[w])
		}
	}
}

// A service with more instances than a route has room for: what is left out is said once,
// and own instances are not what is left out.
func TestARouteWithTooManyInstances(t *testing.T) {
	s, _ := bigSite(t, 2)
	s.Share("s0", 3, nil)
	s.Ticks(3, time.Second)
	step := func() (said []string) {
		tx := reconcile.Step(s.Model, s.Now)
		for _, e := range tx.Events {
			if e.Subject() == "service/app.s0" {
				said = append(said, e.Text)
			}
		}
		s.Tick(time.Second)
		return said
	}
	far := &wire.Route{V: wire.Version, App: "app", Service: "s0", Ports: []api.Port{{Name: "http"}}}
	for n := range 20_000 {
		far.Endpoints = append(far.Endpoints,
			wire.Endpoint{Instance: fmt.Sprintf("app.s0.%d", n+3), Cluster: "fog", Worker: fmt.Sprint("w", n),
				Address: fmt.Sprintf("w%d:8474", n)})
	}
	s.Model.Far["app.s0"] = far
	if said := step(); len(said) != 1 || !strings.Contains(said[0], "more instances than a route has room for") {
		t.Errorf("it is said: %q", said)
	}
	r := s.Model.Routes["app.s0"]
	own := 0
	for _, e := range r.Endpoints {
		if e.Cluster == "edge" {
			own++
		}
	}
	if r.Beyond == 0 || len(r.Endpoints)+r.Beyond != 20_003 || own != 3 {
		t.Errorf("%d have room, %d do not, %d of 3 own ones do", len(r.Endpoints), r.Beyond, own)
	}
	if said := step(); len(said) != 0 {
		t.Errorf("it is said again: %q", said)
	}
	far.Endpoints = far.Endpoints[:100]
	if said := step(); len(said) != 1 || s.Model.Routes["app.s0"].Beyond != 0 ||
		len(s.Model.Routes["app.s0"].Endpoints) != 103 {
		t.Errorf("with fewer: %q, %+v", said, s.Model.Routes["app.s0"].Beyond)
	}
}
