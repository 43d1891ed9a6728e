package controller_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that hears of no worker and of no root is cut off itself: it gives
// nothing away, and gives everybody time when somebody is heard again.
func TestACutOffClusterReplacesNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		root bool // it answers while no worker does
	}{{"cut off from everybody", false}, {"cut off from its workers", true}} {
		t.Run(tc.name, func(t *testing.T) {
			c := clustertest.NewCore(t, bustest.NewMemStore())
			fakes, pass := clustertest.TwoWorkers(t, c)
			states := func(want wire.State) {
				t.Helper()
				for id, i := range c.M.Insts {
					if i.State != want || len(c.M.Insts) != 2 {
						t.Fatalf("%d instances, %s is %s on %q: %+v", len(c.M.Insts), id, i.State, i.Worker, i.History)
					}
				}
			}
			if err := uplink.FromRoot(c).Take(t.Context(), true, []wire.Change{clustertest.ShareChange(t, 2)},
				wire.Rev{Inc: "root", N: 7}, nil); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pass(time.Second, "w1", "w2")
			}
			states(wire.Running)
			for range 60 {
				pass(time.Second)
				if tc.root {
					uplink.Memory(c.M).UpAt = pace.Memory(c.M).LastPass.Add(999 * time.Millisecond)
				}
			}
			if tc.root {
				states(wire.Requested) // given back: somebody else is to run them
				return
			}
			states(wire.Running)
			if v := views.Workers(c); v[0].Status != "suspect" || v[1].Status != "suspect" {
				t.Errorf("they are %s and %s", v[0].Status, v[1].Status)
			}
			// The first is back. The other one has time.
			for range 20 {
				pass(time.Second, "w1")
			}
			states(wire.Running)
			if n := len(fakes["w1"].Statuses); n != 1 {
				t.Fatalf("%d run on the first that came back, want 1 as before", n)
			}
			if v := views.Workers(c); v[0].Status != "ready" || v[1].Status != "suspect" {
				t.Errorf("they are %s and %s", v[0].Status, v[1].Status)
			}
			// And then it has not.
			for range 60 {
				pass(time.Second, "w1")
			}
			if n := len(fakes["w1"].Statuses); n != 2 {
				t.Errorf("%d run on the one that is there, want both", n)
			}
		})
	}
}

// Reports come one after the other, so that workers which fall silent together are
// not suspect at the same moment: the cluster doubts itself when the first is.
func TestACutOffClusterDoubtsItselfAtTheFirstSilence(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	_, pass := clustertest.TwoWorkers(t, c)
	for range 4 {
		pass(700*time.Millisecond, "w1")
		pass(300*time.Millisecond, "w2")
	}
	w1, w2 := c.M.Workers["w1"], c.M.Workers["w2"]
	for range 30 {
		if pass(100 * time.Millisecond); w1.Suspect {
			break
		}
		if c.M.Alone {
			t.Fatal("it doubts itself before anybody is missed")
		}
	}
	if !w1.Suspect || w2.Suspect || !c.M.Alone {
		t.Fatalf("suspect: %t and %t; the cluster doubts itself: %t", w1.Suspect, w2.Suspect, c.M.Alone)
	}
	pass(100*time.Millisecond, "w2")
	if w1.Suspect || c.M.Alone {
		t.Errorf("somebody is heard again: the other is suspect: %t, the cluster doubts itself: %t", w1.Suspect,
			c.M.Alone)
	}

	// One that is silent alone is missed.
	pass(100*time.Millisecond, "w1")
	for range 60 {
		pass(500*time.Millisecond, "w2")
	}
	if !w1.Suspect || c.M.Alone {
		t.Errorf("one of two is silent: suspect: %t, the cluster doubts itself: %t", w1.Suspect, c.M.Alone)
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
			c := clustertest.NewCore(t, bustest.NewMemStore())
			_, pass := clustertest.TwoWorkers(t, c)
			if err := uplink.FromRoot(c).Take(t.Context(), true, []wire.Change{clustertest.ShareChange(t, 2)},
				wire.Rev{Inc: "root", N: 7}, nil); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				pass(time.Second, "w1", "w2")
			}
			atOnce := api.Duration(0)
			c.M.Shares["app.web"].Spec.ReplaceAfter = &atOnce
			for range 10 {
				if pass(time.Second); c.M.Alone {
					break
				}
			}
			if !c.M.Alone {
				t.Fatal("it does not doubt itself")
			}
			began := workers.Memory(c.M).Isolation.Since()
			for _, w := range c.M.Workers {
				w.Connected, w.Closed = false, began.Add(tc.after)
			}
			uplink.Memory(c.M).UpAt = began.Add(50 * time.Millisecond)
			pass(time.Second)
			pass(time.Second)
			for id, i := range c.M.Insts {
				if i.State != tc.want {
					t.Errorf("%s is %s, want %s: %+v", id, i.State, tc.want, i.History)
				}
			}
		})
	}
}
