package presence

import (
	"log/slog"
	"slices"
	"testing"
)

// A node is present from its first connection to the end of its last, and each change is told
// once.
func TestANodeIsPresentWhileItHasAConnection(t *testing.T) {
	p := New(slog.New(slog.DiscardHandler), nil)
	p.Set("early", 1, true)
	var told []string
	p.Listen(func(node string, present bool) {
		if !present {
			node = "-" + node
		}
		told = append(told, node)
	})
	for _, step := range []struct {
		node    string
		id      uint64
		up      bool
		present bool
	}{
		{"w1", 2, true, true},
		{"w1", 3, true, true}, // it reconnects before the old one is found dead
		{"w1", 2, false, true},
		{"w1", 2, false, true}, // said twice
		{"w1", 3, false, false},
		{"w2", 5, false, false}, // its end is heard of before its start
		{"w2", 5, true, false},
		{"w2", 6, true, true},
		{"", 7, true, false}, // of no interest
	} {
		p.Set(step.node, step.id, step.up)
		p.With(step.node, func(present bool) {
			if present != step.present {
				t.Errorf("after %+v: present %v", step, present)
			}
		})
	}
	if want := []string{"early", "w1", "-w1", "w2"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if ids := p.IDs("w2"); !slices.Equal(ids, []uint64{6}) {
		t.Errorf("connections of w2: %v", ids)
	}
}
