package controller_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/wire"
)

// What is heeded by itself is what a pass would have made of it: whatever is reported,
// a pass afterwards changes nothing of the instances that were taken over, of their
// routes and of what the root is told.
func TestHeedIsAPartOfAPass(t *testing.T) {
	for seed := range clustertest.Seeds(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			s := clustertest.NewSim(t, "w1", "w2", "w3")
			s.Share("web", 6, nil)
			s.Share("db", 3, nil)
			s.Ticks(5, time.Second)
			if !reconcile.Steady(s.Model) {
				t.Fatalf("it is not steady\n%s", s.Dump())
			}
			heeded := 0
			for range 40 {
				var ids []wire.InstanceID
				for id, i := range s.Model.Insts {
					if random.IntN(3) > 0 {
						continue
					}
					st := s.Model.Workers[i.Worker].Status[id]
					switch random.IntN(8) {
					case 0:
						st.Restarts++
					case 1:
						st.Phase, st.Why = wire.PhasePending, "waiting"
					case 2:
						st.Incarnation += random.IntN(2)
					default:
						st.Phase, st.Ready = wire.PhaseRunning, random.IntN(2) == 0
					}
					s.Model.Workers[i.Worker].Status[id] = st
					ids = append(ids, id)
				}
				part, left := reconcile.StepOf(s.Model, ids, s.Now)
				whole := reconcile.Step(s.Model, s.Now)
				for id, i := range part.Insts {
					heeded++
					if !records.Same(whole.Insts[id], i) {
						t.Fatalf("%s is heeded as %+v, a pass makes %+v of it", id, i, whole.Insts[id])
					}
					if !records.Same(whole.Ups[id], part.Ups[id]) {
						t.Fatalf("of %s the root is told %+v, by a pass %+v", id, part.Ups[id], whole.Ups[id])
					}
				}
				if !left {
					equalRecords(t, "instances", part.Insts, whole.Insts)
					equalRecords(t, "routes", part.Routes, whole.Routes)
					equalRecords(t, "for the root", part.Ups, whole.Ups)
				}
				s.Now = s.Now.Add(time.Second)
				s.Ticks(3, time.Second)
			}
			if heeded == 0 {
				t.Error("nothing was ever heeded")
			}
		})
	}
}

func equalRecords[T any](t *testing.T, what string, part, whole map[string]*T) {
	t.Helper()
	a, err := json.Marshal(part)
	b, err2 := json.Marshal(whole)
	if err != nil || err2 != nil || string(a) != string(b) {
		t.Fatalf("%s\nheeded %s\na pass %s", what, a, b)
	}
}

// A pass follows what was heeded within a tick, though nobody else asks for one; and
// where something is under way that others wait for, at once.
func TestAPassFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clustertest.NewCoreWithWorkers(t, "w1")
		c.HeardWake = make(chan struct{}, 1)
		pace.Memory(c.M).Steady, pace.Memory(c.M).Passed = true, time.Now()
		pace.NoteHeard(c, []wire.InstanceID{"app.web.0"})
		if len(c.HeardWake) != 1 || len(c.Wake) != 0 {
			t.Fatalf("%d wakes of heed, %d of a pass", len(c.HeardWake), len(c.Wake))
		}
		if _, err := controller.FastPath(t.Context(), c, time.Now(), true); err != nil || len(c.Wake) != 0 ||
			controller.FastPathPause(c, true) != time.Second {
			t.Fatalf("%v, %d wakes of a pass, pause %s", err, len(c.Wake), controller.FastPathPause(c, true))
		}
		time.Sleep(time.Second)
		if _, err := controller.FastPath(t.Context(), c, time.Now(), false); err != nil || len(c.Wake) != 1 ||
			controller.FastPathPause(c, true) < time.Minute {
			t.Fatalf("%v, %d wakes of a pass, pause %s", err, len(c.Wake), controller.FastPathPause(c, true))
		}
		<-c.Wake
		pace.Memory(c.M).Steady = false
		pace.NoteHeard(c, []wire.InstanceID{"app.web.0"})
		if len(c.Wake) != 1 {
			t.Error("no pass was asked for at once")
		}
	})
}
