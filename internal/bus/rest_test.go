package bus_test

import (
	"context"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
)

// A store that rests works as any other when it is needed, beside others, and
// closes cleanly, resting or not.
func TestARestingStoreWakes(t *testing.T) {
	a := newCA(t)
	ctx := context.Background()
	dir := t.TempDir()
	first, second := startRoot(t, a, dir, "127.0.0.1:0"), startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	for range 3 {
		for _, s := range []bus.Store{first.Store(), second.Store()} {
			bus.Rest(s)
			bus.Rest(s) // twice is once
			if !bus.Resting(s) {
				t.Fatal("it does not rest")
			}
			if _, err := s.Put(ctx, "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
			if bus.Resting(s) {
				t.Error("it was written to while it rests")
			}
		}
	}
	bus.Rest(first.Store())
	first.Close()
	bus.Rest(second.Store())
	again := startRoot(t, a, dir, "127.0.0.1:0")
	if e, err := again.Store().Get(ctx, "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("after a rest and a restart: %q, %v", e.Value, err)
	}
	second.Close()
}

// The server may give up its log by itself; the rest that was due must not be
// taken from another store's.
func TestAStoreWithoutItsLogDoesNotRest(t *testing.T) {
	a := newCA(t)
	ctx := context.Background()
	broken, sound := startRoot(t, a, t.TempDir(), "127.0.0.1:0"), startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	broken.StopLog(t)
	if _, err := broken.Store().Put(ctx, "k", nil); err == nil {
		t.Fatal("written without a log")
	}
	bus.Rest(broken.Store())
	if bus.Resting(broken.Store()) {
		t.Error("it rests, although the server has counted it out")
	}
	bus.Rest(sound.Store())
	if _, err := sound.Store().Put(ctx, "k", nil); err != nil {
		t.Error(err)
	}
}
