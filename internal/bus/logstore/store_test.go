package logstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/jetstreamtest"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// model is the obvious implementation of a store.
type model struct {
	live map[string]string
	last map[string]uint64 // revision by key, of tombstones too
}

func (m *model) describe(since uint64, prefixes ...string) string {
	var parts []string
	for key, rev := range m.last {
		if rev <= since || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			continue
		}
		if v, ok := m.live[key]; ok {
			parts = append(parts, fmt.Sprintf("%s=%s@%d", key, v, rev))
		} else {
			parts = append(parts, fmt.Sprintf("%s-@%d", key, rev))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (m *model) rev(prefixes ...string) uint64 {
	var rev uint64
	for key, r := range m.last {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			rev = max(rev, r)
		}
	}
	return rev
}

// play makes random commits and compares with the model; cut is called now and
// then and returns the store to go on with.
func play(t *testing.T, s bus.Store, rounds int, cut func() bus.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	m := &model{live: map[string]string{}, last: map[string]uint64{}}
	prefixes := []string{"", "a.", "b.", "a.1", "c.", "zz", "b.2.", "a.1.1"}
	key := func() string {
		return fmt.Sprintf("%c.%d.%d", 'a'+rune(random.IntN(3)), random.IntN(4), random.IntN(6))
	}
	for round := range rounds {
		ops := map[string]bus.Op{}
		for range 1 + random.IntN(6) {
			k := key()
			ops[k] = bus.Put(k, fmt.Appendf(nil, "%d%s", round, strings.Repeat("x", random.IntN(500))))
			if random.IntN(3) == 0 {
				ops[k] = bus.Del(k)
			}
		}
		var list []bus.Op
		written := 0
		for _, k := range slices.Sorted(func(yield func(string) bool) {
			for k := range ops {
				if !yield(k) {
					return
				}
			}
		}) {
			list = append(list, ops[k])
			if _, there := m.live[k]; there || !ops[k].Delete {
				written++
			}
		}
		last, err := s.Commit(t.Context(), list...)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range list {
			if _, there := m.live[op.Key]; op.Delete && !there {
				continue
			}
			written--
			m.last[op.Key] = last - uint64(written)
			delete(m.live, op.Key)
			if !op.Delete {
				m.live[op.Key] = string(op.Value)
			}
		}
		if random.IntN(rounds/8) == 0 {
			s = cut()
		}
		asked := []string{prefixes[random.IntN(len(prefixes))], prefixes[random.IntN(len(prefixes))]}
		since := uint64(random.Int64N(int64(last) + 2))
		got, ok, err := s.Changes(t.Context(), since, asked...)
		if err != nil || !ok {
			t.Fatalf("changes: %v, %v", ok, err)
		}
		var parts []string
		for _, e := range got {
			if e.Deleted {
				parts = append(parts, fmt.Sprintf("%s-@%d", e.Key, e.Rev))
			} else {
				parts = append(parts, fmt.Sprintf("%s=%s@%d", e.Key, e.Value, e.Rev))
			}
		}
		slices.Sort(parts)
		if got, want := strings.Join(parts, " "), m.describe(since, asked...); got != want {
			t.Fatalf("round %d: changes since %d of %q:\n got %s\nwant %s", round, since, asked, got, want)
		}
		if got, want := s.Rev(asked...), m.rev(asked...); got != want {
			t.Fatalf("round %d: revision of %q = %d, want %d", round, asked, got, want)
		}
	}
}

func TestMemFollowsModel(t *testing.T) {
	t.Parallel()
	s := bustest.NewMemStore()
	play(t, s, 4000, func() bus.Store {
		s = s.Reopen()
		return s
	})
}

func TestStoreFollowsModelWhileItsLogIsCleaned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const slack = 32 << 10
	start := func() *node {
		r := startNode(t, dir)
		r.store.SetSlack(slack)
		return r
	}
	r := start()
	written := 0
	play(t, r.Store(), 600, func() bus.Store {
		log, live := logstore.LogSize(r.Store())
		if limit := 2*live + 3*slack; log > limit {
			t.Fatalf("the log has %d bytes for %d, limit %d", log, live, limit)
		}
		written++
		r.Close()
		r = start()
		return r.Store()
	})
	if written == 0 {
		t.Fatal("the store was never reopened")
	}
	if first := logstore.FirstRecord(r.Store()); first < 10 {
		t.Fatalf("the log still begins at message %d: nothing was cut off", first)
	}
}

// A copy of the files of a running store is what a power cut leaves.
func TestAcknowledgedIsInTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startNode(t, dir)
	for i := range 20 {
		if _, err := r.Store().Commit(t.Context(), bus.Put("a", fmt.Append(nil, i)), bus.Put("b", fmt.Append(nil, i))); err != nil {
			t.Fatal(err)
		}
	}
	image := t.TempDir()
	if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	check := func(dir, want string) {
		t.Helper()
		s := startNode(t, dir).Store()
		for _, key := range []string{"a", "b"} {
			if e, err := s.Get(t.Context(), key); err != nil || string(e.Value) != want {
				t.Fatalf("%s = %q, %v; want %s", key, e.Value, err, want)
			}
		}
	}
	torn := t.TempDir()
	if err := os.CopyFS(torn, os.DirFS(image)); err != nil {
		t.Fatal(err)
	}
	check(image, "19")
	// The last commit was half written, then the power went: none of it is there.
	blocks, err := filepath.Glob(filepath.Join(torn, "jetstream", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks: %q, %v", blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blocks[0], info.Size()-3); err != nil {
		t.Fatal(err)
	}
	check(torn, "18")
}

func TestUnknownOutcomeIsFoundOut(t *testing.T) {
	t.Parallel()
	r := startNode(t, t.TempDir())
	s := r.Store()
	ctx := t.Context()
	first, err := s.Put(ctx, "k", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	var seen changesSeen
	defer s.Watch("k", seen.add)()
	logstore.SetPatience(s, time.Nanosecond)
	if _, err := s.Put(ctx, "k", []byte("2")); !errors.Is(err, bus.ErrUnknownOutcome) {
		t.Fatalf("write without an acknowledgement: %v", err)
	}
	if err := s.WriteError(); err == nil {
		t.Fatal("no write error after a write without an acknowledgement")
	}
	logstore.SetPatience(s, patience)
	e, err := s.Get(ctx, "k")
	if err != nil || string(e.Value) != "2" || e.Rev <= first || s.Rev() != e.Rev {
		t.Fatalf("afterwards: %+v, %v", e, err)
	}
	if err := s.WriteError(); err != nil {
		t.Fatalf("write error that was settled: %v", err)
	}
	if _, err := s.CompareAndSwap(ctx, "k", []byte("3"), e.Rev); err != nil {
		t.Fatal(err)
	}
	seen.wait(t, "1 2 3")
}

type changesSeen struct {
	mu   sync.Mutex
	seen []string
}

func (c *changesSeen) add(entries []bus.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		c.seen = append(c.seen, string(e.Value))
	}
}

func (c *changesSeen) wait(t *testing.T, want string) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		c.mu.Lock()
		got := strings.Join(c.seen, " ")
		c.mu.Unlock()
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("watched %q, want %q", got, want)
		}
	}
}

func TestFullDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	s := startNode(t, t.TempDir()).Store()
	ctx := t.Context()
	if _, err := s.Put(ctx, "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	logstore.SetFree(s, 33<<20)
	if _, err := s.Put(ctx, "k", []byte("2")); err != nil {
		t.Fatalf("small write near the limit: %v", err)
	}
	if _, err := s.Put(ctx, "big", make([]byte, 2<<20)); err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("large write near the limit: %v", err)
	}
	logstore.SetFree(s, 1<<20)
	if err := s.WriteError(); err == nil {
		t.Fatal("no write error on a full disk")
	}
	if _, err := s.Put(ctx, "k", []byte("3")); err == nil {
		t.Fatal("write on a full disk")
	}
	if e, err := s.Get(ctx, "k"); err != nil || string(e.Value) != "2" {
		t.Fatalf("read on a full disk: %q, %v", e.Value, err)
	}
	logstore.SetFree(s, 1<<30)
	if err := s.WriteError(); err != nil {
		t.Fatalf("write error after room was made: %v", err)
	}
	if _, err := s.Put(ctx, "k", []byte("3")); err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutItsLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startNode(t, dir)
	s := r.Store()
	if _, err := s.Put(t.Context(), "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	// What the server does itself when its disk fails.
	r.StopLog()
	if _, err := s.Put(t.Context(), "k", []byte("2")); err == nil {
		t.Fatal("write without a log")
	}
	if err := s.WriteError(); err == nil {
		t.Fatal("no write error without a log")
	}
	if e, err := s.Get(t.Context(), "k"); err != nil || string(e.Value) != "1" {
		t.Fatalf("read without a log: %q, %v", e.Value, err)
	}
	r.Close()
	// Data that has gone must not look like a new store.
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	_, err := logstore.Open(t.Context(), jetstreamtest.Start(t, dir).Conn(), dir, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("start without the data: %v", err)
	}
}

func TestCommitOutlivesItsContext(t *testing.T) {
	t.Parallel()
	s := startNode(t, t.TempDir()).Store()
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // sometimes before, sometimes while
		key := fmt.Sprintf("k%d", i)
		_, err := s.Put(ctx, key, nil)
		_, got := s.Get(t.Context(), key)
		if (err == nil) != (got == nil) {
			t.Fatalf("put: %v, get: %v", err, got)
		}
	}
}
