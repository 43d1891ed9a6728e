package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Where an instance was is remembered, latest first and not for ever, also when it has left.
func TestFormerPlaces(t *testing.T) {
	places := func(on ...string) (out []wire.Placement) {
		for _, w := range on {
			var p wire.Placement
			if _, err := fmt.Sscanf(w, "w%d@%d", new(int), &p.Incarnation); err != nil {
				t.Fatal(err)
			}
			p.Worker = w[:2]
			out = append(out, p)
		}
		return out
	}
	stored := &wire.Instance{ID: "shop.web.0", Worker: "w1", Incarnation: 1}
	m := newModel("edge", true, time.Time{})
	m.Insts[stored.ID] = stored
	c := &core{m: m}
	for _, step := range []struct {
		worker      string
		incarnation int
		want        []wire.Placement
	}{
		{"w1", 1, nil},
		{"w1", 2, nil}, // updated in place: its log goes on
		{"", 2, places("w1@2")},
		{"w2", 3, places("w1@2")},
		{"w3", 4, places("w2@3", "w1@2")},
		{"w1", 5, places("w3@4", "w2@3", "w1@2")},
		{"w2", 6, places("w1@5", "w3@4", "w2@3")},
	} {
		tx := m.begin()
		next := *m.Insts[stored.ID]
		next.Worker, next.Incarnation = step.worker, step.incarnation
		tx.Put(next)
		if put := tx.Insts[stored.ID]; put != nil {
			m.Insts[stored.ID] = put
		}
		if got := c.formerPlaces(stored.ID); !slices.Equal(got, step.want) {
			t.Errorf("on %q: %v, want %v", step.worker, got, step.want)
		}
	}
	last := m.Insts[stored.ID]
	delete(m.Insts, stored.ID)
	c.departed.add(stored.ID, state.Left(last, last.Places))
	if got, want := c.formerPlaces(stored.ID), places("w2@6", "w1@5", "w3@4"); !slices.Equal(got, want) {
		t.Errorf("when it has left: %v, want %v", got, want)
	}
	for i := range maxDeparted {
		c.departed.add(fmt.Sprintf("shop.web.%d", i+1), places("w1@1"))
	}
	if got := c.formerPlaces(stored.ID); got != nil || len(c.departed.places) != maxDeparted || len(c.departed.order) != maxDeparted {
		t.Errorf("%d are remembered, the first as %v", len(c.departed.places), got)
	}
}
