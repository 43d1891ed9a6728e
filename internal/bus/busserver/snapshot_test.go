package busserver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/logrecord"
)

// records are the snapshot in its stored form, collected.
func records(t *testing.T, c bus.Snapshot) (out [][]byte) {
	t.Helper()
	for b, err := range logrecord.Snapshot(c) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func replay(list [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func snapshot(t *testing.T, s bus.Store) bus.Snapshot {
	t.Helper()
	c, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A store that is made of a snapshot holds what the original held then, knows what
// the original had said until then, and does not know what it said later.
func TestASnapshotBecomesAStore(t *testing.T) {
	t.Parallel()
	a, dir := newCA(t), t.TempDir()
	r := startRoot(t, a, dir, "127.0.0.1:0")
	s := r.Store()
	ctx := context.Background()
	for n := range 50 {
		if _, err := s.Put(ctx, fmt.Sprintf("k.%d", n), []byte(strings.Repeat("v", n*2000))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(ctx, bus.Del("k.7"), bus.Put("k.9", nil), bus.Del("k.11")); err != nil {
		t.Fatal(err)
	}
	c := snapshot(t, s)
	before := s.Timeline().At(s.Rev())
	if _, err := s.Put(ctx, "later", []byte("x")); err != nil {
		t.Fatal(err)
	}
	after := s.Timeline().At(s.Rev())
	if n := len(c.List("k.")); n != 48 || c.Last != before.N || len(c.List("later")) != 0 {
		t.Fatalf("%d live entries, last %d, want 48 and %d", n, c.Last, before.N)
	}

	stored := records(t, c)
	if len(stored) < 3 {
		t.Fatalf("%d records: nothing was divided", len(stored))
	}
	read, err := logrecord.ReadSnapshot(replay(stored))
	if err != nil || !reflect.DeepEqual(read, c) {
		t.Fatalf("what was read differs: %v", err)
	}
	read.Amend("k.7", []byte("again"))
	read.Amend("mark", []byte("restored"))

	restored := t.TempDir()
	keys, err := os.ReadFile(filepath.Join(dir, "bus.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(restored, "bus.json"), keys, 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	if err := busserver.WriteSnapshot(ctx, restored, read, quiet); err != nil {
		t.Fatal(err)
	}
	if err := busserver.WriteSnapshot(ctx, restored, read, quiet); err == nil {
		t.Error("a store was written over another")
	}
	r.Close()
	n := startRoot(t, a, restored, "127.0.0.1:0").Store()
	got := snapshot(t, n)
	if !reflect.DeepEqual(got.Entries, dropped(read.Entries, "k.7")) || got.Floor != read.Floor || got.Last != read.Last {
		t.Errorf("the store holds %d entries up to %d, want %d up to %d", len(got.Entries), got.Last, len(read.Entries)-1, read.Last)
	}
	if !n.Timeline().Known(before, n.Rev()) || n.Timeline().Known(after, n.Rev()) {
		t.Errorf("known: before %v, after %v, want true and false", n.Timeline().Known(before, n.Rev()), n.Timeline().Known(after, n.Rev()))
	}
	if _, err := n.Put(ctx, "new", nil); err != nil {
		t.Error(err)
	}
}

// dropped are entries without all but the last of a key.
func dropped(list []bus.Entry, key string) (out []bus.Entry) {
	for i, e := range list {
		if e.Key == key && i < len(list)-2 {
			continue
		}
		out = append(out, e)
	}
	return out
}

// A snapshot does not see what is written while it is read.
func TestASnapshotIsOfOneMoment(t *testing.T) {
	s := bustest.NewMemStore()
	ctx := t.Context()
	for n := range 1000 {
		if _, err := s.Commit(ctx, bus.Put("a", fmt.Appendf(nil, "%d", n)), bus.Put("b", fmt.Appendf(nil, "%d", n))); err != nil {
			t.Fatal(err)
		}
		if n%100 == 0 {
			c := snapshot(t, s)
			if a, b := c.List("a"), c.List("b"); string(a[0].Value) != string(b[0].Value) {
				t.Fatalf("%s and %s", a[0].Value, b[0].Value)
			}
		}
	}
	s.Close()
	if _, err := s.Snapshot(ctx); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

// What is damaged is not read, whatever the damage.
func TestADamagedSnapshotIsRefused(t *testing.T) {
	s := bustest.NewMemStore()
	for n := range 20 {
		if _, err := s.Put(t.Context(), fmt.Sprintf("k%d", n), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	good := records(t, snapshot(t, s))
	if _, err := logrecord.ReadSnapshot(replay(good)); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][][]byte{
		"nothing": nil, "no beginning": good[1:], "twice": append(append([][]byte{}, good...), good[1]),
		"cut":    {good[0], good[1][:len(good[1])-3]},
		"longer": {good[0], append(append([]byte{}, good[1]...), 1)},
		"newer":  {append([]byte{9}, good[0][1:]...), good[1]},
	} {
		if _, err := logrecord.ReadSnapshot(replay(list)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	broken := errors.New("disk")
	if _, err := logrecord.ReadSnapshot(func(yield func([]byte, error) bool) { yield(nil, broken) }); !errors.Is(err, broken) {
		t.Errorf("an error while reading gave %v", err)
	}
}
