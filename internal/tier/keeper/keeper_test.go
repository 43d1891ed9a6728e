package keeper

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

// change is a transaction of some groups.
type change struct {
	groups [][]bus.Op
	left   error
	done   bool
}

func (c *change) Encode() ([][]bus.Op, error) { return c.groups, c.left }

func (c *change) Done() { c.done = true }

// failing is a store that stores nothing.
type failing struct{ bus.Store }

func (failing) Commit(context.Context, ...bus.Op) (uint64, error) { return 0, errors.New("disk full") }

func puts(n, size int) (groups [][]bus.Op) {
	for i := range n {
		groups = append(groups, []bus.Op{bus.Put("k"+strings.Repeat("x", i+1), make([]byte, size))})
	}
	return groups
}

func TestWhole(t *testing.T) {
	store := bustest.NewMemStore()
	k := &Keeper{Store: store}
	c := &change{groups: puts(3, 1)}
	if err := k.Whole(t.Context(), c, bus.Put("token", nil)); err != nil || !c.done || store.Rev() != 4 {
		t.Errorf("%v, done: %v, revision %d", err, c.done, store.Rev())
	}
	if c = (&change{}); k.Whole(t.Context(), c) != nil || !c.done || store.Rev() != 4 {
		t.Errorf("nothing to store: done: %v, revision %d", c.done, store.Rev())
	}
	var large *TooLargeError
	for name, groups := range map[string][][]bus.Op{"records": puts(bus.MaxCommitOps+1, 1), "a value": puts(1, bus.MaxValueBytes+1), "bytes": puts(9, bus.MaxCommitBytes/8)} {
		if c = (&change{groups: groups}); !errors.As(k.Whole(t.Context(), c), &large) || c.done {
			t.Errorf("too many %s: %v", name, large)
		}
	}
	if c = (&change{groups: puts(2, 1), left: errors.New("no number")}); k.Whole(t.Context(), c) == nil || c.done || store.Rev() != 4 {
		t.Error("a part was stored")
	}
	if k.Stale() {
		t.Error("nothing was written that failed")
	}
}

func TestParts(t *testing.T) {
	store := bustest.NewMemStore()
	k := &Keeper{Store: store}
	c := &change{groups: puts(2, 1), left: errors.New("no number")}
	if stored, left, err := k.Parts(t.Context(), c); !stored || left == nil || err != nil || !c.done || store.Rev() == 0 {
		t.Errorf("%v, %v, %v, done: %v", stored, left, err, c.done)
	}
	if c = (&change{}); c.done {
		t.Error("done")
	}
	if stored, left, err := k.Parts(t.Context(), c); stored || left != nil || err != nil || c.done {
		t.Errorf("nothing to store: %v, %v, %v", stored, left, err)
	}
}

// What is in memory is not believed after a write of which nobody knows how it ended.
func TestAfterAFailedWrite(t *testing.T) {
	for name, write := range map[string]func(k *Keeper, c *change) error{
		"whole": func(k *Keeper, c *change) error { return k.Whole(t.Context(), c) },
		"parts": func(k *Keeper, c *change) error { _, _, err := k.Parts(t.Context(), c); return err },
	} {
		k, c := &Keeper{Store: failing{bustest.NewMemStore()}}, &change{groups: puts(1, 1)}
		if err := write(k, c); err == nil || c.done || !k.Stale() {
			t.Errorf("%s: %v, done: %v, stale: %v", name, err, c.done, k.Stale())
		}
		if k.Loaded(); k.Stale() {
			t.Errorf("%s: stale after it was loaded", name)
		}
	}
}
