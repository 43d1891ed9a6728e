package views_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
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
	m := state.NewModel("edge", true, time.Time{})
	m.Insts[stored.ID] = stored
	c := &core.Core{M: m}
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
		tx := m.Begin()
		next := *m.Insts[stored.ID]
		next.Worker, next.Incarnation = step.worker, step.incarnation
		tx.Put(next)
		if put := tx.Insts[stored.ID]; put != nil {
			m.Insts[stored.ID] = put
		}
		if got := views.FormerPlaces(c, stored.ID); !slices.Equal(got, step.want) {
			t.Errorf("on %q: %v, want %v", step.worker, got, step.want)
		}
	}
	last := m.Insts[stored.ID]
	delete(m.Insts, stored.ID)
	core.Memory(c.M).Departed.Add(stored.ID, state.Left(last, last.Places))
	if got, want := views.FormerPlaces(c, stored.ID), places("w2@6", "w1@5", "w3@4"); !slices.Equal(got, want) {
		t.Errorf("when it has left: %v, want %v", got, want)
	}
	for i := range core.MaxDeparted {
		core.Memory(c.M).Departed.Add(fmt.Sprintf("shop.web.%d", i+1), places("w1@1"))
	}
	if got := views.FormerPlaces(c, stored.ID); got != nil ||
		len(core.Memory(c.M).Departed.Places) != core.MaxDeparted ||
		len(core.Memory(c.M).Departed.Order) != core.MaxDeparted {
		t.Errorf("%d are remembered, the first as %v", len(core.Memory(c.M).Departed.Places), got)
	}
}
