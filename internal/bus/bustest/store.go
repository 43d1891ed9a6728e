package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
)

func runStore(t *testing.T, open func(t *testing.T) StoreUnderTest) {
	for name, test := range map[string]func(t *testing.T, u StoreUnderTest){
		"PutGetDelete":      testPutGetDelete,
		"ListIsOrdered":     testList,
		"Atomic":            testAtomic,
		"CompareAndSwap":    testCompareAndSwap,
		"ConflictWritesNot": testConflict,
		"Bounds":            testBounds,
		"LargeValues":       testLargeValues,
		"LargeCommit":       testLargeCommit,
		"Changes":           testChanges,
		"RevOfPrefixes":     testRev,
		"Tombstones":        testTombstones,
		"TombstonesBounded": testTombstonesBounded,
		"Watch":             testWatch,
		"Concurrent":        testConcurrent,
		"Reopen":            testReopen,
		"RestoredCopy":      testRestoredCopy,
		"EndedContext":      testEndedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// must has helpers that end the test on an error.
type must struct {
	t *testing.T
	s bus.Store
}

func (m must) commit(ops ...bus.Op) uint64 {
	m.t.Helper()
	rev, err := m.s.Commit(m.t.Context(), ops...)
	if err != nil {
		m.t.Fatalf("commit: %v", err)
	}
	return rev
}

func (m must) put(key, value string) uint64 {
	m.t.Helper()
	return m.commit(bus.Put(key, []byte(value)))
}

func (m must) get(key, want string) bus.Entry {
	m.t.Helper()
	e, err := m.s.Get(m.t.Context(), key)
	if err != nil {
		m.t.Fatalf("get %s: %v", key, err)
	}
	if string(e.Value) != want || e.Key != key || e.Deleted {
		m.t.Fatalf("get %s = %+v, want value %q", key, e, want)
	}
	return e
}

func (m must) absent(key string) {
	m.t.Helper()
	if e, err := m.s.Get(m.t.Context(), key); !errors.Is(err, bus.ErrNotFound) {
		m.t.Fatalf("get %s = %+v, %v; want ErrNotFound", key, e, err)
	}
}

func (m must) list(prefix, want string) {
	m.t.Helper()
	entries, err := m.s.List(m.t.Context(), prefix)
	if err != nil {
		m.t.Fatalf("list %q: %v", prefix, err)
	}
	if got := describe(entries); got != want {
		m.t.Fatalf("list %q = %q, want %q", prefix, got, want)
	}
}

func (m must) changes(since uint64, want string, prefixes ...string) {
	m.t.Helper()
	entries, ok, err := m.s.Changes(m.t.Context(), since, prefixes...)
	if err != nil || !ok {
		m.t.Fatalf("changes since %d: ok %v, %v", since, ok, err)
	}
	if got := describe(entries); got != want {
		m.t.Fatalf("changes since %d of %q = %q, want %q", since, prefixes, got, want)
	}
}

// describe writes entries as "key=value" or "key-" for a tombstone.
func describe(entries []bus.Entry) string {
	var parts []string
	for _, e := range entries {
		if e.Deleted {
			parts = append(parts, e.Key+"-")
		} else {
			parts = append(parts, e.Key+"="+string(e.Value))
		}
	}
	return strings.Join(parts, " ")
}

func testPutGetDelete(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.absent("a")
	m.list("", "")
	if rev := m.s.Rev(); rev != 0 {
		t.Fatalf("revision of an empty store = %d", rev)
	}
	buf := []byte("1")
	first, err := m.s.Put(t.Context(), "a", buf)
	if err != nil {
		t.Fatal(err)
	}
	buf[0] = 'x' // the store has its own copy
	if e := m.get("a", "1"); e.Rev != first || m.s.Rev() != first {
		t.Fatalf("revision of the entry %d, of the store %d, returned %d", e.Rev, m.s.Rev(), first)
	}
	second := m.put("a", "2")
	if second <= first {
		t.Fatalf("revision went from %d to %d", first, second)
	}
	m.get("a", "2")
	m.put("empty", "")
	if e := m.get("empty", ""); e.Value == nil {
		t.Fatal("an empty value became nil")
	}
	third, err := m.s.Delete(t.Context(), "a")
	if err != nil || third <= second {
		t.Fatalf("delete = %d, %v", third, err)
	}
	m.absent("a")
	// Again, and of what never was: no error, nothing written.
	for _, key := range []string{"a", "never"} {
		if rev, err := m.s.Delete(t.Context(), key); err != nil || rev != m.s.Rev() || rev != third {
			t.Fatalf("delete of absent %s = %d, %v; store at %d, want %d", key, rev, err, m.s.Rev(), third)
		}
	}
	if rev := m.commit(); rev != third {
		t.Fatalf("empty commit = %d, want %d", rev, third)
	}
	if err := m.s.WriteError(); err != nil {
		t.Fatalf("write error of a healthy store: %v", err)
	}
}

func testList(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	for _, k := range []string{"b.2", "a", "b.1", "c", "b.10", "b", "b/1"} {
		m.put(k, "v")
	}
	m.commit(bus.Del("b.1"))
	m.list("", "a=v b=v b.10=v b.2=v b/1=v c=v")
	m.list("b.", "b.10=v b.2=v")
	m.list("b", "b=v b.10=v b.2=v b/1=v")
	m.list("d", "")
}

func testAtomic(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.put("old", "1")
	before := m.s.Rev()
	rev := m.commit(bus.Put("x", []byte("1")), bus.Del("old"), bus.Put("y", []byte("2")))
	m.list("", "x=1 y=2")
	m.changes(before, "old- x=1 y=2")
	revs := map[uint64]bool{}
	entries, _, err := m.s.Changes(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		revs[e.Rev] = true
		if e.Rev <= before || e.Rev > rev {
			t.Fatalf("revision %d of %s is not in (%d, %d]", e.Rev, e.Key, before, rev)
		}
	}
	if len(revs) != 3 || !revs[rev] {
		t.Fatalf("revisions %v are not unique or lack %d", revs, rev)
	}
	(must{t, u.Reopen(t)}).list("", "x=1 y=2")
}

func testCompareAndSwap(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	ctx := t.Context()
	first, err := m.s.CompareAndSwap(ctx, "k", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.s.CompareAndSwap(ctx, "k", []byte("2"), 0); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("create of what exists: %v", err)
	}
	second, err := m.s.CompareAndSwap(ctx, "k", []byte("2"), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.s.CompareAndSwap(ctx, "k", []byte("3"), first); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("swap of an older revision: %v", err)
	}
	m.get("k", "2")
	if _, err := m.s.Commit(ctx, bus.Op{Key: "k", Delete: true, If: &first}); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("delete of an older revision: %v", err)
	}
	if _, err := m.s.Commit(ctx, bus.Op{Key: "k", Delete: true, If: &second}); err != nil {
		t.Fatal(err)
	}
	// A deleted key counts as absent, its tombstone as no revision.
	if _, err := m.s.CompareAndSwap(ctx, "k", []byte("4"), m.s.Rev()); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("swap of a tombstone: %v", err)
	}
	if _, err := m.s.CompareAndSwap(ctx, "k", []byte("4"), 0); err != nil {
		t.Fatalf("create after a delete: %v", err)
	}
	m.get("k", "4")
}

func testConflict(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	rev := m.put("k", "1")
	wrong := rev + 7
	ops := []bus.Op{bus.Put("before", []byte("x")), {Key: "k", Value: []byte("2"), If: &wrong}, bus.Put("after", []byte("x"))}
	if _, err := m.s.Commit(t.Context(), ops...); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("commit with a wrong revision: %v", err)
	}
	m.list("", "k=1")
	if m.s.Rev() != rev {
		t.Fatalf("revision moved from %d to %d", rev, m.s.Rev())
	}
	ops[1].If = &rev
	m.commit(ops...)
	m.list("", "after=x before=x k=2")
}

func testBounds(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	long := strings.Repeat("k", bus.MaxKeyBytes)
	m.put(long, "v")
	m.get(long, "v")
	m.put("A-z_0/9=.b", "v")
	before := m.s.Rev()
	bad := map[string][]bus.Op{
		"empty key":      {bus.Put("", nil)},
		"long key":       {bus.Put(long+"k", nil)},
		"leading dot":    {bus.Put(".a", nil)},
		"trailing dot":   {bus.Put("a.", nil)},
		"two dots":       {bus.Put("a..b", nil)},
		"space":          {bus.Put("a b", nil)},
		"wildcard":       {bus.Put("a.*", nil)},
		"rest":           {bus.Put("a.>", nil)},
		"not ascii":      {bus.Put("ä", nil)},
		"newline":        {bus.Put("a\r\nb", nil)},
		"large value":    {bus.Put("a", make([]byte, bus.MaxValueBytes+1))},
		"same key twice": {bus.Put("a", nil), bus.Del("a")},
		"too many":       manyOps(bus.MaxCommitOps+1, ""),
	}
	for name, ops := range bad {
		if _, err := m.s.Commit(t.Context(), append(ops, bus.Put("ok", nil))...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if m.s.Rev() != before {
		t.Fatal("a refused commit was written")
	}
}

func manyOps(n int, value string) []bus.Op {
	ops := make([]bus.Op, n)
	for i := range ops {
		ops[i] = bus.Put(fmt.Sprintf("many.%04d", i), []byte(value))
	}
	return ops
}

func testLargeValues(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	big := bytes.Repeat([]byte("0123456789abcdef"), bus.MaxValueBytes/16)
	m.commit(bus.Put("one", big))
	m.commit(bus.Put("two", big), bus.Put("three", big))
	m = must{t, u.Reopen(t)}
	for _, k := range []string{"one", "two", "three"} {
		e, err := m.s.Get(t.Context(), k)
		if err != nil || !bytes.Equal(e.Value, big) {
			t.Fatalf("%s: %d bytes, %v", k, len(e.Value), err)
		}
	}
}

func testLargeCommit(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.commit(manyOps(bus.MaxCommitOps, "1")...)
	m.commit(manyOps(bus.MaxCommitOps, "2")...)
	m = must{t, u.Reopen(t)}
	entries, err := m.s.List(t.Context(), "many.")
	if err != nil || len(entries) != bus.MaxCommitOps {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if string(e.Value) != "2" {
			t.Fatalf("%s = %q", e.Key, e.Value)
		}
	}
}

func testChanges(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	for i := range 50 {
		m.put(fmt.Sprintf("bulk.%02d", i), "v")
	}
	start := m.s.Rev()
	m.put("a.1", "x")
	mid := m.put("b.1", "x")
	m.put("a.2", "x")
	m.put("a.1", "y")
	m.commit(bus.Del("bulk.07"))
	m.changes(start, "a.1=y a.2=x b.1=x bulk.07-")
	m.changes(mid, "a.1=y a.2=x bulk.07-")
	m.changes(start, "a.1=y a.2=x", "a.")
	m.changes(start, "a.1=y a.2=x b.1=x", "b.", "a.")
	m.changes(start, "a.1=y a.2=x", "a.", "a", "a.1") // prefixes overlap: each key once
	m.changes(start, "", "zzz")
	m.changes(start, "bulk.07-", "bulk.")
	m.changes(m.s.Rev(), "")
	m.changes(0, "a.1=y a.2=x", "a.") // the prefix is the shorter way
	m.changes(m.s.Rev()+100, "")
}

func testRev(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	a := m.put("to.a.1", "x")
	b := m.put("to.b.1", "x")
	for i := range 20 {
		m.put(fmt.Sprintf("bulk.%02d", i), "v")
	}
	check := func(want uint64, prefixes ...string) {
		t.Helper()
		if got := m.s.Rev(prefixes...); got != want {
			t.Fatalf("revision of %q = %d, want %d", prefixes, got, want)
		}
	}
	check(a, "to.a.")
	check(b, "to.b.")
	check(b, "to.a.", "to.b.")
	check(b, "to.")
	check(0, "nothing.")
	check(m.s.Rev(), "bulk.")
	check(m.s.Rev(), "")
	del := m.commit(bus.Del("to.a.1"))
	check(del, "to.a.")
	check(del)
}

func testTombstones(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.put("gone", "1")
	m.put("back", "1")
	since := m.s.Rev()
	m.commit(bus.Del("gone"), bus.Del("back"))
	m.changes(since, "back- gone-")
	m.put("back", "2")
	m.changes(since, "back=2 gone-")
	m = must{t, u.Reopen(t)}
	m.changes(since, "back=2 gone-")
	m.absent("gone")
	m.list("", "back=2")
}

func testTombstonesBounded(t *testing.T, u StoreUnderTest) {
	if testing.Short() {
		t.Skip("writes many entries")
	}
	m := must{t, u.Store()}
	first := m.put("witness", "1")
	const rounds = bus.MaxTombstones/bus.MaxCommitOps + 2
	var early uint64
	for r := range rounds {
		puts, dels := make([]bus.Op, bus.MaxCommitOps), make([]bus.Op, bus.MaxCommitOps)
		for i := range puts {
			key := fmt.Sprintf("t.%d.%d", r, i)
			puts[i], dels[i] = bus.Put(key, nil), bus.Del(key)
		}
		m.commit(puts...)
		rev := m.commit(dels...)
		if r == 0 {
			early = rev
		}
	}
	check := func(s bus.Store) {
		t.Helper()
		ctx := t.Context()
		for _, since := range []uint64{0, first, early - 1} {
			if _, ok, err := s.Changes(ctx, since); ok || err != nil {
				t.Fatalf("changes since %d, before dropped tombstones: ok %v, %v", since, ok, err)
			}
		}
		late := s.Rev() - bus.MaxCommitOps
		changes, ok, err := s.Changes(ctx, late)
		if !ok || err != nil || len(changes) != bus.MaxCommitOps {
			t.Fatalf("late changes: %d, ok %v, %v", len(changes), ok, err)
		}
	}
	check(m.s)
	m = must{t, u.Reopen(t)}
	check(m.s)
	m.list("", "witness=1")
	// A key whose tombstone was dropped is as if it had never been.
	if _, err := m.s.CompareAndSwap(t.Context(), "t.0.0", []byte("new"), 0); err != nil {
		t.Fatal(err)
	}
}

func testEndedContext(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.s.Put(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("put with an ended context: %v", err)
	}
	if _, err := m.s.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Fatalf("get with an ended context: %v", err)
	}
	m.list("", "")
}

func testConcurrent(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	const writers, rounds = 8, 20
	m.put("counter", "0")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own := fmt.Sprintf("own.%d", w)
			for range rounds {
				if err := increment(t.Context(), m.s, "counter", own); err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				if _, _, err := m.s.Changes(t.Context(), 0, "own."); err != nil {
					t.Errorf("changes: %v", err)
				}
				m.s.Rev("own.")
			}
		})
	}
	wg.Wait()
	m.get("counter", fmt.Sprint(writers*rounds))
	for w := range writers {
		m.get(fmt.Sprintf("own.%d", w), fmt.Sprint(rounds))
	}
}

// increment adds one to two numbers in one commit, with compare and swap on the
// first.
func increment(ctx context.Context, s bus.Store, shared, own string) error {
	for {
		e, err := s.Get(ctx, shared)
		if err != nil {
			return err
		}
		var total, mine int
		if _, err := fmt.Sscan(string(e.Value), &total); err != nil {
			return err
		}
		if o, err := s.Get(ctx, own); err == nil {
			if _, err := fmt.Sscan(string(o.Value), &mine); err != nil {
				return err
			}
		}
		_, err = s.Commit(ctx,
			bus.Op{Key: shared, Value: fmt.Append(nil, total+1), If: &e.Rev},
			bus.Put(own, fmt.Append(nil, mine+1)))
		if !errors.Is(err, bus.ErrConflict) {
			return err
		}
	}
}

func testReopen(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.put("a", "1")
	m.put("b", "1")
	seen := m.s.Timeline().At(m.s.Rev())
	eras := len(m.s.Timeline())
	for range 3 {
		before := m.s
		m = must{t, u.Reopen(t)}
		tl := m.s.Timeline()
		if len(tl) != eras+1 {
			t.Fatalf("timeline has %d eras, want %d", len(tl), eras+1)
		}
		eras++
		if !tl.Known(seen, m.s.Rev()) {
			t.Fatalf("%v is not known after a restart: %+v, store at %d", seen, tl, m.s.Rev())
		}
		if m.s.Rev() != seen.N {
			t.Fatalf("a restart moved the revision from %d to %d", seen.N, m.s.Rev())
		}
		if _, err := before.Put(t.Context(), "late", nil); !errors.Is(err, bus.ErrClosed) {
			t.Fatalf("put on a closed store: %v", err)
		}
	}
	m.list("", "a=1 b=1")
	next := m.put("a", "2")
	if next <= seen.N {
		t.Fatalf("revision %d after a restart, %d before", next, seen.N)
	}
	m.changes(seen.N, "a=2")
	now := m.s.Timeline().At(next)
	if now.Inc == seen.Inc || !m.s.Timeline().Known(now, m.s.Rev()) || !m.s.Timeline().Known(seen, m.s.Rev()) {
		t.Fatalf("revisions of two eras: %v, %v in %+v", seen, now, m.s.Timeline())
	}
}

func testRestoredCopy(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.put("a", "1")
	old := m.s.Timeline().At(m.s.Rev())
	restore := u.Copy(t)
	m = must{t, u.Store()}
	m.put("a", "2")
	m.put("b", "2")
	lost := m.s.Timeline().At(m.s.Rev())

	m = must{t, restore(t)}
	m.list("", "a=1")
	// Write past the number that was lost: it is another history all the same.
	for m.s.Rev() <= lost.N+2 {
		m.put("c", "3")
	}
	tl := m.s.Timeline()
	if tl.Known(lost, m.s.Rev()) {
		t.Fatalf("%v of the lost history is known to %+v", lost, tl)
	}
	if !tl.Known(old, m.s.Rev()) {
		t.Fatalf("%v of before the copy is not known to %+v", old, tl)
	}
}
