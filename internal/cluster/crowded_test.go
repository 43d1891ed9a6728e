package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

func cpu(n int64) func(*api.Service) {
	return func(v *api.Service) { v.Resources.CPU = api.CPU(n) }
}

// full gives each worker of a sim room for so much cpu.
func (s *sim) full(n int64) {
	for name, w := range s.m.Workers {
		w.Info.Capacity.CPU = api.CPU(n)
		s.store(state.KeyWorker+name, w.WorkerRecord)
	}
	s.ticks(3, time.Second)
}

// What asks for more than any worker has goes on as it was, all of it.
func TestAnUpdateWithoutRoomEndsNothing(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.full(1000)
	s.share("web", 3, cpu(300))
	s.ticks(3, time.Second)
	was := s.starts()
	s.share("web", 3, cpu(5000))
	for range 20 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("web"); ready != 3 {
			t.Fatalf("%d of 3 answer\n%s", ready, s.dump())
		}
	}
	if s.starts() != was {
		t.Errorf("%d starts, before it were %d\n%s", s.starts(), was, s.dump())
	}
	said := 0
	for _, i := range s.m.Insts {
		if i.Revision == s.m.Shares["app.web"].Revision && !standIn(i) {
			t.Errorf("%s is said to be of the new revision", i.ID)
		}
		if strings.Contains(i.Reason, "needs 5 cpu") {
			said++
		}
	}
	if said == 0 {
		t.Errorf("nobody is told why\n%s", s.dump())
	}
	// It holds no matter how often it is looked at, and nothing is written for it.
	if tx := s.m.step(s.now); len(tx.Insts) != 0 || len(tx.Orders) != 0 {
		t.Errorf("a step that has nothing to do writes %v, %v", tx.Insts, tx.Orders)
	}
	// With room it is made up for.
	s.full(16000)
	s.ticks(12, time.Second)
	for _, i := range s.m.Insts {
		if i.Revision != s.m.Shares["app.web"].Revision || !i.Ready || i.Reason != "" {
			t.Errorf("%s: revision %d ready %v, %s", i.ID, i.Revision, i.Ready, i.Reason)
		}
	}
}

// What grows moves where its worker is too small for all of it, and nothing is ever
// given more than there is.
func TestAnUpdateMovesWhatItsWorkerHasNoRoomFor(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.full(1000)
	s.share("web", 4, cpu(250))
	s.ticks(3, time.Second)
	s.share("web", 4, cpu(450))
	for range 30 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("web"); ready < 3 {
			t.Fatalf("%d of 4 answer\n%s", ready, s.dump())
		}
		sum := map[string]int64{}
		for key, o := range s.m.Orders {
			sum[strings.TrimSuffix(key, "."+o.ID)] += int64(o.Spec.Resources.CPU)
		}
		for w, n := range sum {
			if n > 1000 {
				t.Fatalf("%s is given %dm\n%s", w, n, s.dump())
			}
		}
	}
	for _, i := range s.m.Insts {
		if i.Revision != s.m.Shares["app.web"].Revision || i.State != wire.Running || !i.Ready {
			t.Errorf("%s: revision %d, %s\n%s", i.ID, i.Revision, i.State, s.dump())
		}
	}
}

// A plan tells beforehand.
func TestAPlanSaysWhatHasNoRoom(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	p := s.ask(append(web(2, "a"), "\n    resources: {cpu: 100}\n"...), 2)
	if len(p.Instances) != 2 {
		t.Fatalf("%+v", p.Instances)
	}
	for _, i := range p.Instances {
		if i.Action != wire.PlanWait || i.State != wire.Running || i.From != i.To || i.Why == "" {
			t.Errorf("%+v", i)
		}
	}
}

// An application that was deleted and applied anew under the same name, in another
// namespace and with more reserved: nobody is promised more than there is, whether its
// revision is another one or not.
func TestAnotherApplicationOfTheSameName(t *testing.T) {
	for _, later := range []uint64{0, 1} {
		s := newSim(t, "w0")
		s.share("web", 2, func(a *api.Service) { a.Resources.CPU = 400 })
		s.ticks(5, time.Second)
		next := *s.m.Given["app.web"]
		spec := *next.Spec
		spec.Resources.CPU = 900
		next.Spec, next.Namespace, next.Revision = &spec, "other", next.Revision+later
		s.m.Given["app.web"] = &next
		s.m.effect()
		for range 60 {
			s.tick(time.Second)
			var sum api.CPU
			for _, o := range s.m.Orders {
				sum += o.Spec.Resources.CPU
			}
			if most := s.m.Workers["w0"].Info.Capacity.CPU; sum > most || len(s.m.Orders) != 2 {
				t.Fatalf("%d revisions later: %d orders of %v, there is %v", later, len(s.m.Orders), sum, most)
			}
		}
	}
}
