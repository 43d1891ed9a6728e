package cluster

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// What is heeded by itself is what a pass would have made of it: whatever is reported,
// a pass afterwards changes nothing of the instances that were taken over, of their
// routes and of what the root is told.
func TestHeedIsAPartOfAPass(t *testing.T) {
	for seed := range seeds(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			s := newSim(t, "w1", "w2", "w3")
			s.share("web", 6, nil)
			s.share("db", 3, nil)
			s.ticks(5, time.Second)
			if !s.m.steady() {
				t.Fatalf("it is not steady\n%s", s.dump())
			}
			heeded := 0
			for range 40 {
				var ids []wire.InstanceID
				for id, i := range s.m.Insts {
					if random.IntN(3) > 0 {
						continue
					}
					st := s.m.Workers[i.Worker].Status[id]
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
					s.m.Workers[i.Worker].Status[id] = st
					ids = append(ids, id)
				}
				part, left := s.m.stepOf(ids, s.now)
				whole := s.m.step(s.now)
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
				s.now = s.now.Add(time.Second)
				s.ticks(3, time.Second)
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
		c, _ := coreWithWorkers(t, "w1")
		c.heardWake = make(chan struct{}, 1)
		c.steady, c.passed = true, time.Now()
		c.noteHeard([]wire.InstanceID{"app.web.0"})
		if len(c.heardWake) != 1 || len(c.wake) != 0 {
			t.Fatalf("%d wakes of heed, %d of a pass", len(c.heardWake), len(c.wake))
		}
		if _, err := c.heed(t.Context(), time.Now(), true); err != nil || len(c.wake) != 0 || c.heedPause(true) != time.Second {
			t.Fatalf("%v, %d wakes of a pass, pause %s", err, len(c.wake), c.heedPause(true))
		}
		time.Sleep(time.Second)
		if _, err := c.heed(t.Context(), time.Now(), false); err != nil || len(c.wake) != 1 || c.heedPause(true) < time.Minute {
			t.Fatalf("%v, %d wakes of a pass, pause %s", err, len(c.wake), c.heedPause(true))
		}
		<-c.wake
		c.steady = false
		c.noteHeard([]wire.InstanceID{"app.web.0"})
		if len(c.wake) != 1 {
			t.Error("no pass was asked for at once")
		}
	})
}
