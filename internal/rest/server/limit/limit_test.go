package limit

import (
	"fmt"
	"testing"
	"time"
)

func TestSourcesAreLimitedEach(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := NewSources(1, 3)
	take := func(addr string, at time.Time) (n int) {
		for range 10 {
			if s.Allow(addr, at) {
				n++
			}
		}
		return n
	}
	for _, addr := range []string{"192.0.2.1:5000", "192.0.2.2:5000", "[2001:db8::1]:1", "nonsense"} {
		if n := take(addr, now); n != 3 {
			t.Errorf("%s got %d at once, want 3", addr, n)
		}
		if !s.Exhausted(addr, now) {
			t.Errorf("%s has some left", addr)
		}
	}
	// Another port, another form, and another address of the same network are the
	// same source.
	for _, addr := range []string{"192.0.2.1:6000", "192.0.2.1", "[::ffff:192.0.2.1]:7", "[2001:db8::2%eth0]:1",
		"more nonsense", ""} {
		if n := take(addr, now); n != 0 {
			t.Errorf("%s got %d", addr, n)
		}
	}
	if n := take("192.0.2.1:1", now.Add(2*time.Second)); n != 2 {
		t.Errorf("%d after two seconds", n)
	}
	if s.Exhausted("192.0.2.9:1", now) {
		t.Error("a new source is exhausted")
	}
}

// The table is bounded; those beyond it share a bucket, and those that are quiet
// make room.
func TestSourcesAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := NewSources(1, 2)
	s.most = 100
	allowed := 0
	for i := range 1000 {
		if s.Allow(fmt.Sprintf("10.0.%d.%d:1", i/250, i%250), now) {
			allowed++
		}
	}
	if len(s.by) > s.most || allowed != 102 {
		t.Errorf("%d sources are kept, %d were let through", len(s.by), allowed)
	}
	later := now.Add(time.Minute)
	allowed = 0
	for range 10 {
		if s.Allow("10.1.0.1:1", later) {
			allowed++
		}
	}
	if allowed != 2 || len(s.by) != 1 {
		t.Errorf("%d sources after a minute, of which a new one got %d", len(s.by), allowed)
	}
}

func TestTrustedIsBounded(t *testing.T) {
	var tr Trusted
	for i := range 3 * maxTrusted {
		tr.Note(fmt.Sprint(i), true)
	}
	if len(tr.hashes) > maxTrusted || !tr.Has(fmt.Sprint(3*maxTrusted-1)) || tr.Has("x") {
		t.Errorf("%d tokens", len(tr.hashes))
	}
	if tr.Note(fmt.Sprint(3*maxTrusted-1), false); tr.Has(fmt.Sprint(3*maxTrusted - 1)) {
		t.Error("a token that is refused now is trusted")
	}
}
