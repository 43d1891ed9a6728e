package cluster

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// twoWorkers are w1 and w2 of a cluster. pass has some of them report, lets the cluster
// look, and then so much time go by.
func twoWorkers(t *testing.T, c *core) (fakes map[string]*fake, pass func(d time.Duration, reporting ...string)) {
	fakes = map[string]*fake{}
	s := &sim{t: t, m: c.m, disk: map[string][]byte{}, fakes: fakes}
	for _, name := range []string{"w1", "w2"} {
		s.addWorker(name)
	}
	now := time.Now()
	return fakes, func(d time.Duration, reporting ...string) {
		t.Helper()
		s.m, s.now = c.m, now
		for _, name := range reporting {
			fakes[name].act(s, name)
			c.m.Workers[name].HeartbeatInterval = time.Second
		}
		if _, err := c.pass(t.Context(), now, true); err != nil {
			t.Fatal(err)
		}
		c.planned = d
		now = now.Add(d)
	}
}

// A cluster that hears of no worker and of no root is cut off itself: it gives
// nothing away, and gives everybody time when somebody is heard again.
func TestACutOffClusterReplacesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		root bool // it answers while no worker does
	}{{"cut off from everybody", false}, {"cut off from its workers", true}} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCore(t, bus.NewMemStore())
			fakes, pass := twoWorkers(t, c)
			states := func(want wire.State) {
				t.Helper()
				for id, i := range c.m.Insts {
					if i.State != want || len(c.m.Insts) != 2 {
						t.Fatalf("%d instances, %s is %s on %q: %+v", len(c.m.Insts), id, i.State, i.Worker, i.History)
					}
				}
			}
			if err := (*rootDesired)(c).Take(t.Context(), true, []wire.Change{share(t, 2)}, wire.Rev{Inc: "root", N: 7}, nil); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pass(time.Second, "w1", "w2")
			}
			states(wire.Running)
			for range 60 {
				pass(time.Second)
				if tc.root {
					c.upAt = c.lastPass.Add(999 * time.Millisecond)
				}
			}
			if tc.root {
				states(wire.Requested) // given back: somebody else is to run them
				return
			}
			states(wire.Running)
			if v := c.workers(); v[0].Status != "suspect" || v[1].Status != "suspect" {
				t.Errorf("they are %s and %s", v[0].Status, v[1].Status)
			}
			// The first is back. The other one has time.
			for range 20 {
				pass(time.Second, "w1")
			}
			states(wire.Running)
			if n := len(fakes["w1"].has); n != 1 {
				t.Fatalf("%d run on the first that came back, want 1 as before", n)
			}
			if v := c.workers(); v[0].Status != "ready" || v[1].Status != "suspect" {
				t.Errorf("they are %s and %s", v[0].Status, v[1].Status)
			}
			// And then it has not.
			for range 60 {
				pass(time.Second, "w1")
			}
			if n := len(fakes["w1"].has); n != 2 {
				t.Errorf("%d run on the one that is there, want both", n)
			}
		})
	}
}

// Reports come one after the other, so that workers which fall silent together are
// not suspect at the same moment: the cluster doubts itself when the first is.
func TestACutOffClusterDoubtsItselfAtTheFirstSilence(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	_, pass := twoWorkers(t, c)
	for range 4 {
		pass(700*time.Millisecond, "w1")
		pass(300*time.Millisecond, "w2")
	}
	w1, w2 := c.m.Workers["w1"], c.m.Workers["w2"]
	for range 30 {
		if pass(100 * time.Millisecond); w1.Suspect {
			break
		}
		if c.m.Alone {
			t.Fatal("it doubts itself before anybody is missed")
		}
	}
	if !w1.Suspect || w2.Suspect || !c.m.Alone {
		t.Fatalf("suspect: %t and %t; the cluster doubts itself: %t", w1.Suspect, w2.Suspect, c.m.Alone)
	}
	pass(100*time.Millisecond, "w2")
	if w1.Suspect || c.m.Alone {
		t.Errorf("somebody is heard again: the other is suspect: %t, the cluster doubts itself: %t", w1.Suspect, c.m.Alone)
	}

	// One that is silent alone is missed.
	pass(100*time.Millisecond, "w1")
	for range 60 {
		pass(500*time.Millisecond, "w2")
	}
	if !w1.Suspect || c.m.Alone {
		t.Errorf("one of two is silent: suspect: %t, the cluster doubts itself: %t", w1.Suspect, c.m.Alone)
	}
}

// The interruption ends in the moment in which the cluster begins to doubt: the root
// answers at once, and the workers, which find their way back, give their old
// connections up first.
func TestConnectionsThatCloseAfterTheDoubtBeganProveNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration // of the end of the connections, from the beginning of the doubt
		want  wire.State
	}{{"closed after it began", time.Millisecond, wire.Running}, {"closed before", -time.Millisecond, wire.Requested}} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCore(t, bus.NewMemStore())
			_, pass := twoWorkers(t, c)
			if err := (*rootDesired)(c).Take(t.Context(), true, []wire.Change{share(t, 2)}, wire.Rev{Inc: "root", N: 7}, nil); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pass(time.Second, "w1", "w2")
			}
			atOnce := api.Duration(0)
			c.m.Shares["app.web"].Spec.ReplaceAfter = &atOnce
			for range 10 {
				if pass(time.Second); c.m.Alone {
					break
				}
			}
			if !c.m.Alone {
				t.Fatal("it does not doubt itself")
			}
			began := c.isolation.Since()
			for _, w := range c.m.Workers {
				w.Connected, w.Closed = false, began.Add(tc.after)
			}
			c.upAt = began.Add(50 * time.Millisecond)
			pass(time.Second)
			pass(time.Second)
			for id, i := range c.m.Insts {
				if i.State != tc.want {
					t.Errorf("%s is %s, want %s: %+v", id, i.State, tc.want, i.History)
				}
			}
		})
	}
}
