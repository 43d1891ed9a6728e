package emul

import (
	"testing"
	"time"
)

// Hosts of a site share its connection in each direction; among them, and without a
// site, nothing holds packets back.
func TestSiteIsShared(t *testing.T) {
	// Ports 0 and 1 are a site of a byte a millisecond up and two down, 2 and 3 are not.
	s := &Switch{ups: make([]*line, 4), sites: linesOf([]Site{{Ports: []int{0, 1}, Up: 8000, Down: 16000, Buffer: 3000}}, 4)}
	pipes := map[[2]int]*pipe{}
	for _, c := range []struct {
		from, to int
		due      int64
		ok       bool
	}{
		{0, 2, 1000 * ms, true},
		{1, 3, 2000 * ms, true}, // waits for what its neighbour sends
		{1, 0, 5 * ms, true},
		{0, 1, 5 * ms, true},
		{2, 3, 5 * ms, true},
		{2, 0, 500 * ms, true},
		{3, 1, 1000 * ms, true},
		{0, 3, 3000 * ms, true},
		{1, 2, 0, false}, // its buffer is full
	} {
		p := pipes[[2]int{c.from, c.to}]
		if p == nil {
			p = newPipe(Link{Latency: 5 * time.Millisecond}, 1, c.from, c.to)
			pipes[[2]int{c.from, c.to}] = p
		}
		want := c.due
		if c.ok && want > 5*ms {
			want += 5 * ms
		}
		if due, ok := p.admit(s.way(c.from, c.to), 0, 1000, true); ok != c.ok || due != want {
			t.Errorf("%d to %d: due %d, %v; want %d, %v", c.from, c.to, due, ok, want, c.ok)
		}
	}
}

func TestBadSites(t *testing.T) {
	for _, sites := range [][]Site{
		{{Ports: []int{4}}}, {{Ports: []int{-1}}}, {{Ports: []int{0, 0}}}, {{Ports: []int{0}}, {Ports: []int{0}}},
		{{Up: -1}}, {{Down: 1e12}}, {{Buffer: -1}},
	} {
		if checkSites(sites, 4) == nil {
			t.Errorf("%+v was taken", sites)
		}
	}
	if err := checkSites([]Site{{Ports: []int{0, 3}, Up: 1e6, Down: 2e6, Buffer: 1 << 16}, {Ports: []int{1}}}, 4); err != nil {
		t.Error(err)
	}
}
