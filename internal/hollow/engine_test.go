package hollow

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func order(id string, incarnation int, cpu api.CPU) wire.Order {
	return wire.Order{V: wire.Version, ID: id, Incarnation: incarnation, Revision: 1,
		Spec: &api.Service{Resources: api.Resources{CPU: cpu}}}
}

// apply gives orders and returns what the engine then says of all instances.
func apply(t *testing.T, h *Engine, list ...wire.Order) map[string]wire.InstanceStatus {
	t.Helper()
	if err := h.Apply(t.Context(), engineapi.EngineOrders{V: wire.Version, Orders: list}); err != nil {
		t.Fatal(err)
	}
	s, err := h.State(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]wire.InstanceStatus{}
	for _, st := range s.Changed {
		out[st.ID] = st
	}
	return out
}

// Orders are followed at once, and what has no room beside the others is refused until
// it is given anew.
func TestOrdersAreFollowed(t *testing.T) {
	h := New(engineapi.EngineConfig{Capacity: api.Resources{CPU: 1000}}, "test")
	all := apply(t, h, order("a", 1, 400), order("b", 1, 600), order("c", 1, 1))
	for id, want := range map[string]wire.Phase{"a": wire.PhaseRunning, "b": wire.PhaseRunning,
		"c": wire.PhaseRefused} {
		if st := all[id]; st.Phase != want || st.Ready != (want == wire.PhaseRunning) || st.Incarnation != 1 {
			t.Errorf("%s: %+v, want %s", id, st, want)
		}
	}
	stop := order("b", 1, 600)
	stop.Stop = true
	all = apply(t, h, order("a", 1, 400), stop, order("c", 1, 1), order("d", 1, 600))
	if all["b"].Phase != wire.PhaseStopped || all["d"].Phase != wire.PhaseRunning ||
		all["c"].Phase != wire.PhaseRefused {
		t.Errorf("after one was stopped: %+v", all)
	}
	all = apply(t, h, order("a", 1, 400), order("c", 2, 1))
	if all["c"].Phase != wire.PhaseRunning || all["c"].Incarnation != 2 || len(all) != 2 {
		t.Errorf("after others have gone: %+v", all)
	}
	sleeping := order("s", 1, 5000)
	sleeping.Sleep = &wire.Sleep{}
	if all = apply(t, h, sleeping); !all["s"].Asleep || all["s"].Ready {
		t.Errorf("one that sleeps: %+v", all)
	}
}

// Who follows the state hears each change once, and of each that is gone.
func TestStateIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(engineapi.EngineConfig{Capacity: api.Resources{CPU: 1000}}, "test")
		first, err := h.State(t.Context(), 0, time.Minute)
		if err != nil || len(first.Changed) != 0 || first.Seq == 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		got := make(chan string)
		go func() {
			seq := first.Seq
			for range 3 {
				s, err := h.State(t.Context(), seq, time.Minute)
				seq = s.Seq
				got <- fmt.Sprint(len(s.Changed), s.Gone, err)
			}
		}()
		list := []wire.Order{order("a", 1, 1), order("b", 1, 1)}
		for _, step := range []struct {
			orders []wire.Order
			want   string
		}{{list, "2 [] <nil>"}, {list[1:], "0 [a] <nil>"},
			{list[1:], "0 [] <nil>"}} { // the last when its minute is over
			if err := h.Apply(t.Context(), engineapi.EngineOrders{Orders: step.orders}); err != nil {
				t.Fatal(err)
			}
			if text := <-got; text != step.want {
				t.Errorf("heard %s, want %s", text, step.want)
			}
		}
	})
}
