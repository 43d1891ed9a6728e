package bustest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// recorder keeps what a watch was told.
type recorder struct {
	mu    sync.Mutex
	calls [][]bus.Entry
	more  chan struct{} // capacity 1
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{}, 1)} }

func (r *recorder) add(entries []bus.Entry) {
	r.mu.Lock()
	r.calls = append(r.calls, entries)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// wait returns the first n calls when there are as many.
func (r *recorder) wait(t *testing.T, n int) [][]bus.Entry {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		calls := r.calls
		r.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("watch was called %d times, want %d", len(calls), n)
		}
	}
}

func testWatch(t *testing.T, u StoreUnderTest) {
	m := must{t, u.Store()}
	m.put("w.1", "a")
	m.put("w.2", "a")
	m.commit(bus.Del("w.2"))
	m.put("other", "a")

	r, all := newRecorder(), newRecorder()
	stop := m.s.Watch("w.", r.add)
	stopAll := m.s.Watch("", all.add)
	if got := describe(r.wait(t, 1)[0]); got != "w.1=a" {
		t.Fatalf("first call has %q", got)
	}
	m.put("other", "b") // not for r
	m.commit(bus.Put("w.1", []byte("b")), bus.Put("other", []byte("c")), bus.Del("none"))
	m.commit(bus.Del("w.1"))
	const n = 30
	for i := range n {
		m.put("w.3", fmt.Sprint(i))
	}
	calls := r.wait(t, 3+n)
	if got := describe(calls[1]); got != "w.1=b" {
		t.Fatalf("second call has %q", got)
	}
	if got := describe(calls[2]); got != "w.1-" {
		t.Fatalf("third call has %q", got)
	}
	var last uint64
	for i, c := range calls[3:] {
		if got, want := describe(c), fmt.Sprintf("w.3=%d", i); got != want || c[0].Rev <= last {
			t.Fatalf("call %d has %q at %d after %d, want %q", i+3, got, c[0].Rev, last, want)
		}
		last = c[0].Rev
	}
	if got := describe(all.wait(t, 4+n)[0]); got != "other=a w.1=a" {
		t.Fatalf("first call of the other watch has %q", got)
	}

	stop()
	m.put("w.1", "after")
	all.wait(t, 5+n) // the same commit was told to the other watch
	if got := len(r.wait(t, 0)); got != 3+n {
		t.Fatalf("a stopped watch was called: %d calls, want %d", got, 3+n)
	}
	stopAll()

	empty := newRecorder()
	defer m.s.Watch("nothing.", empty.add)()
	if got := empty.wait(t, 1)[0]; len(got) != 0 {
		t.Fatalf("first call of an empty prefix has %v", got)
	}
}
