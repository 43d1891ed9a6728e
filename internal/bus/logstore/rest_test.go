package logstore_test

import (
	"context"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// A store that rests works as any other when it is needed, beside others, and
// closes cleanly, resting or not.
func TestARestingStoreWakes(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	first, second := startNode(t, dir), startNode(t, t.TempDir())
	for range 3 {
		for _, s := range []bus.Store{first.Store(), second.Store()} {
			logstore.Rest(s)
			logstore.Rest(s) // twice is once
			if !logstore.Resting(s) {
				t.Fatal("it does not rest")
			}
			if _, err := s.Put(ctx, "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
			if logstore.Resting(s) {
				t.Error("it was written to while it rests")
			}
		}
	}
	logstore.Rest(first.Store())
	first.Close()
	logstore.Rest(second.Store())
	again := startNode(t, dir)
	if e, err := again.Store().Get(ctx, "k"); err != nil || string(e.Value) != "v" {
		t.Errorf("after a rest and a restart: %q, %v", e.Value, err)
	}
	second.Close()
}

// The server may give up its log by itself; the rest that was due must not be
// taken from another store's.
func TestAStoreWithoutItsLogDoesNotRest(t *testing.T) {
	ctx := context.Background()
	broken, sound := startNode(t, t.TempDir()), startNode(t, t.TempDir())
	broken.StopLog()
	if _, err := broken.Store().Put(ctx, "k", nil); err == nil {
		t.Fatal("written without a log")
	}
	logstore.Rest(broken.Store())
	if logstore.Resting(broken.Store()) {
		t.Error("it rests, although the server has counted it out")
	}
	logstore.Rest(sound.Store())
	if _, err := sound.Store().Put(ctx, "k", nil); err != nil {
		t.Error(err)
	}
}
