package accept

import (
	"fmt"
	"slices"
	"testing"
)

// Connections without credentials make room for others, those first whose source has
// most, and never for more than half of the places; who is known stays.
func TestRoom(t *testing.T) {
	r := NewRoom(8, 6)
	var cut []string
	enter := func(name, from string) *Place {
		t.Helper()
		return r.Enter(Source(from), func() { cut = append(cut, name) })
	}
	wantCut := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(cut, want) {
			t.Errorf("%s: %q were ended, want %q", when, cut, want)
		}
		cut = nil
	}
	for i := range 3 {
		enter(fmt.Sprint("a", i), "192.0.2.1:1000")
	}
	b := enter("b0", "192.0.2.2")
	wantCut("with room for all")
	enter("c0", "192.0.2.3")
	wantCut("half are taken", "a0")
	enter("a3", "192.0.2.1")
	wantCut("the one with most asks again", "a1")
	enter("d0", "192.0.2.4") // two of a, one of b and c
	wantCut("another", "a2")
	enter("e0", "192.0.2.5")
	wantCut("all have one: the oldest", "b0")
	if b.Known() {
		t.Error("what was ended has a place")
	}
	b.Leave()
	if n := r.Held(); n != 4 {
		t.Errorf("%d places are taken", n)
	}

	known := []*Place{}
	for i := range 8 {
		p := enter(fmt.Sprint("k", i), fmt.Sprintf("2001:db8:0:%d::%d", i/4, i))
		if p == nil || !p.Known() || !p.Known() {
			t.Fatalf("connection %d with credentials has no place", i)
		}
		known = append(known, p)
	}
	if len(cut) != 4 || slices.ContainsFunc(cut, func(s string) bool { return s[0] == 'k' }) {
		t.Errorf("for those with credentials %q were ended", cut)
	}
	full := r.Full()
	if full == nil || enter("x", "192.0.2.6") != nil {
		t.Error("more than it holds")
	}
	known[0].Leave()
	known[0].Leave()
	<-full
	if r.Full() != nil || enter("y", "192.0.2.6") == nil {
		t.Error("nobody enters what has room")
	}

	// A source has its part, of which those without credentials go first.
	r, cut = NewRoom(8, 2), nil
	enter("s0", "192.0.2.1").Known()
	enter("s1", "192.0.2.1")
	if enter("s2", "192.0.2.1") == nil {
		t.Error("the source has its own oldest ended for a newer one")
	}
	wantCut("a source with its part", "s1")
	r, cut = NewRoom(8, 2), nil
	enter("s0", "192.0.2.1").Known()
	enter("s1", "192.0.2.1").Known()
	if enter("s2", "192.0.2.1") != nil || len(cut) > 0 {
		t.Errorf("a source has more than its part, %q were ended", cut)
	}
}
