package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func cpu(n int64) func(*api.Service) {
	return func(v *api.Service) { v.Resources.CPU = api.CPU(n) }
}

// What asks for more than any worker has goes on as it was, all of it.
func TestAnUpdateWithoutRoomEndsNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetCPU(1000)
	s.Share("web", 3, cpu(300))
	s.Ticks(3, time.Second)
	was := s.Starts()
	s.Share("web", 3, cpu(5000))
	for range 20 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready != 3 {
			t.Fatalf("%d of 3 answer\n%s", ready, s.Dump())
		}
	}
	if s.Starts() != was {
		t.Errorf("%d starts, before it were %d\n%s", s.Starts(), was, s.Dump())
	}
	said := 0
	for _, i := range s.Model.Insts {
		if i.Revision == s.Model.Shares["app.web"].Revision && !state.StandIn(i) {
			t.Errorf("%s is said to be of the new revision", i.ID)
		}
		if strings.Contains(i.Reason, "needs 5 cpu") {
			said++
		}
	}
	if said == 0 {
		t.Errorf("nobody is told why\n%s", s.Dump())
	}
	// It holds no matter how often it is looked at, and nothing is written for it.
	if tx := reconcile.Step(s.Model, s.Now); len(tx.Insts) != 0 || len(tx.Orders) != 0 {
		t.Errorf("a step that has nothing to do writes %v, %v", tx.Insts, tx.Orders)
	}
	// With room it is made up for.
	s.SetCPU(16000)
	s.Ticks(12, time.Second)
	for _, i := range s.Model.Insts {
		if i.Revision != s.Model.Shares["app.web"].Revision || !i.Ready || i.Reason != "" {
			t.Errorf("%s: revision %d ready %v, %s", i.ID, i.Revision, i.Ready, i.Reason)
		}
	}
}

// What grows moves where its worker is too small for all of it, and nothing is ever
// given more than there is.
func TestAnUpdateMovesWhatItsWorkerHasNoRoomFor(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	s.SetCPU(1000)
	s.Share("web", 4, cpu(250))
	s.Ticks(3, time.Second)
	s.Share("web", 4, cpu(450))
	for range 30 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready < 3 {
			t.Fatalf("%d of 4 answer\n%s", ready, s.Dump())
		}
		sum := map[string]int64{}
		for key, o := range s.Model.Orders {
			sum[strings.TrimSuffix(key, "."+o.ID)] += int64(o.Spec.Resources.CPU)
		}
		for w, n := range sum {
			if n > 1000 {
				t.Fatalf("%s is given %dm\n%s", w, n, s.Dump())
			}
		}
	}
	for _, i := range s.Model.Insts {
		if i.Revision != s.Model.Shares["app.web"].Revision || i.State != wire.Running || !i.Ready {
			t.Errorf("%s: revision %d, %s\n%s", i.ID, i.Revision, i.State, s.Dump())
		}
	}
}

// A plan tells beforehand.
func TestAPlanSaysWhatHasNoRoom(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	p := s.Plan(append(clustertest.Web(2, "a"), "\n    resources: {cpu: 100}\n"...), 2)
	if len(p.Instances) != 2 {
		t.Fatalf("%+v", p.Instances)
	}
	for _, i := range p.Instances {
		if i.Action != rpc.PlanWait || i.State != wire.Running || i.From != i.To || i.Why == "" {
			t.Errorf("%+v", i)
		}
	}
}

// An application that was deleted and applied anew under the same name, in another
// namespace and with more reserved: nobody is promised more than there is, whether its
// revision is another one or not.
func TestAnotherApplicationOfTheSameName(t *testing.T) {
	for _, later := range []uint64{0, 1} {
		s := clustertest.NewSim(t, "w0")
		s.Share("web", 2, func(a *api.Service) { a.Resources.CPU = 400 })
		s.Ticks(5, time.Second)
		next := *s.Model.FromRoot["app.web"]
		spec := *next.Spec
		spec.Resources.CPU = 900
		next.Spec, next.Namespace, next.Revision = &spec, "other", next.Revision+later
		s.Model.FromRoot["app.web"] = &next
		reconcile.Effect(s.Model)
		for range 60 {
			s.Tick(time.Second)
			var sum api.CPU
			for _, o := range s.Model.Orders {
				sum += o.Spec.Resources.CPU
			}
			if most := s.Model.Workers["w0"].Info.Capacity.CPU; sum > most || len(s.Model.Orders) != 2 {
				t.Fatalf("%d revisions later: %d orders of %v, there is %v", later, len(s.Model.Orders), sum, most)
			}
		}
	}
}
