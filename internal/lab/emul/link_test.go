package emul

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func TestLatencyIsExact(t *testing.T) {
	p := newPipe(Link{Latency: 30 * time.Millisecond}, 1, 0, 1)
	for now := int64(0); now < 1000*ms; now += ms / 3 {
		if due, ok := p.admit(nil, now, 100, true); !ok || due != now+30*ms {
			t.Fatalf("at %d: due %d, %v", now, due, ok)
		}
		if !p.deliver() {
			t.Fatal("it was not delivered")
		}
	}
}

// The same seed loses the same packets, whatever else is set; about as many as
// are to be lost.
func TestLossIsSeeded(t *testing.T) {
	fate := func(seed uint64, l Link) (lost []int) {
		p := newPipe(l, seed, 3, 4)
		for i := range 20000 {
			if _, ok := p.admit(nil, int64(i)*ms, 100, true); !ok {
				lost = append(lost, i)
			} else {
				p.deliver()
			}
		}
		if int(p.count.Lost) != len(lost) || p.count.Sent != 20000 || p.count.Delivered != uint64(20000-len(lost)) {
			t.Errorf("%d lost, counted %+v", len(lost), p.count)
		}
		return lost
	}
	once := fate(7, Link{Loss: 0.2})
	if again := fate(7, Link{Loss: 0.2, Latency: time.Second, Rate: 1e9}); !slices.Equal(once, again) {
		t.Error("the same seed lost other packets")
	}
	if other := fate(8, Link{Loss: 0.2}); slices.Equal(once, other) {
		t.Error("another seed lost the same packets")
	}
	if share := float64(len(once)) / 20000; math.Abs(share-0.2) > 0.01 {
		t.Errorf("%.3f were lost", share)
	}
	if n := len(fate(7, Link{Loss: 1})); n != 20000 {
		t.Errorf("%d of 20000 were lost by a loss of 1", n)
	}
}

func TestPacketsOvertakeOnlyWhereTheyMay(t *testing.T) {
	overtakes := func(l Link) (n int) {
		p := newPipe(l, 1, 0, 1)
		last := int64(0)
		for i := range 1000 {
			now := int64(i) * ms
			due, ok := p.admit(nil, now, 100, true)
			if !ok || due < now {
				t.Fatalf("packet %d is due %d at %d", i, due, now)
			}
			if due < last {
				n++
			}
			last = due
			p.deliver()
		}
		return n
	}
	wobbly := Link{Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond}
	if n := overtakes(wobbly); n != 0 {
		t.Errorf("%d packets overtook others", n)
	}
	wobbly.Reorder = true
	if n := overtakes(wobbly); n < 100 {
		t.Errorf("%d packets overtook others where they may", n)
	}
}

func TestRateIsAQueueThatEnds(t *testing.T) {
	// 8 Mbit/s: a packet of 1000 bytes takes a millisecond; ten fit.
	p := newPipe(Link{Rate: 8e6, Buffer: 10_000, Latency: 5 * time.Millisecond}, 1, 0, 1)
	var due []int64
	for range 15 {
		if d, ok := p.admit(nil, 0, 1000, true); ok {
			due = append(due, d)
		}
	}
	if len(due) != 10 || p.count.Dropped != 5 {
		t.Fatalf("%d of 15 fitted, %d were dropped", len(due), p.count.Dropped)
	}
	for i, d := range due {
		if want := int64(i+1)*ms + 5*ms; d != want {
			t.Errorf("packet %d is due at %d, want %d", i, d, want)
		}
	}
	// Half of it has been sent: five fit again.
	fit := 0
	for range 15 {
		if _, ok := p.admit(nil, 5*ms, 1000, true); ok {
			fit++
		}
	}
	if fit != 5 {
		t.Errorf("%d fitted later, want 5", fit)
	}
}

func TestCutLosesWhatIsOnItsWay(t *testing.T) {
	p := newPipe(Link{Latency: time.Second}, 1, 0, 1)
	for range 10 {
		p.admit(nil, 0, 100, true)
	}
	l := p.Link
	l.Cut = true
	p.set(l)
	if _, ok := p.admit(nil, ms, 100, true); ok {
		t.Error("a packet came in at a link that is cut")
	}
	for range 10 {
		if p.deliver() {
			t.Error("a packet left a link that is cut")
		}
	}
	if p.count.Cut != 11 || p.count.Delivered != 0 {
		t.Errorf("%+v", p.count)
	}
	l.Cut = false
	p.set(l)
	if due, ok := p.admit(nil, 2000*ms, 100, true); !ok || due != 3000*ms {
		t.Errorf("after it healed: %d, %v", due, ok)
	}
}

func TestQueueIsInOrder(t *testing.T) {
	var q queue
	draw := rand.New(rand.NewPCG(1, 2))
	var want [][2]int64
	for i := range 2000 {
		due := int64(draw.IntN(100))
		q.push(flight{due: due, seq: uint64(i)})
		want = append(want, [2]int64{due, int64(i)})
	}
	slices.SortFunc(want, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	for i, w := range want {
		if f := q.pop(); f.due != w[0] || int64(f.seq) != w[1] {
			t.Fatalf("%d: due %d seq %d, want %v", i, f.due, f.seq, w)
		}
	}
}

func TestSlots(t *testing.T) {
	var s slots
	seen := map[int32]bool{}
	for range 3 * chunk {
		i, ok := s.take()
		if !ok || seen[i] {
			t.Fatalf("slot %d: %v, taken before: %v", i, ok, seen[i])
		}
		seen[i] = true
		s.bytes(i)[0] = byte(i)
	}
	for i := range seen {
		if s.bytes(i)[0] != byte(i) {
			t.Fatalf("slot %d shares its memory", i)
		}
		s.give(i)
	}
	if i, ok := s.take(); !ok || !seen[i] {
		t.Error("a free slot is not used again")
	}
}

func TestLatePercentiles(t *testing.T) {
	var steps [lateSteps]uint64
	for ns := int64(0); ns < 1_000_000; ns += 100 {
		steps[step(ns)]++
	}
	l := Late{Steps: steps[:], Count: 10000}
	for p, want := range map[float64]float64{0.5: 500_000, 0.99: 990_000} {
		if got := float64(l.Percentile(p)); math.Abs(got/want-1) > 0.07 {
			t.Errorf("p%g is %.0f ns, want about %.0f", p*100, got, want)
		}
	}
	if got := l.Since(l).Percentile(0.5); got != 0 {
		t.Errorf("nothing has a median of %v", got)
	}
	for i := range lateSteps - 1 {
		if top(i) >= top(i+1) {
			t.Fatalf("step %d ends at %d, the next one at %d", i, top(i), top(i+1))
		}
	}
}

func TestLimits(t *testing.T) {
	for _, l := range []Link{
		{Latency: -1}, {Latency: time.Hour}, {Jitter: -1}, {Loss: -0.1}, {Loss: 1.1}, {Loss: math.NaN()}, {Rate: -1}, {Rate: 1e12}, {Buffer: -1}, {Buffer: 1 << 40},
	} {
		if l.Validate() == nil {
			t.Errorf("%+v was taken", l)
		}
	}
	if err := (Link{Latency: time.Minute, Loss: 1, Rate: 1e9}).Validate(); err != nil {
		t.Error(err)
	}
}

// What one host sends to several shares its uplink, and waits there whatever the
// links have room for.
func TestUplinkIsShared(t *testing.T) {
	up := []*line{{rate: 8000, buffer: 3000}} // a byte a millisecond
	a, b := newPipe(Link{Latency: 5 * time.Millisecond}, 1, 0, 1), newPipe(Link{Latency: 7 * time.Millisecond}, 1, 0, 2)
	if due, ok := a.admit(up, 0, 1000, true); !ok || due != 1005*ms {
		t.Errorf("the first: %d, %v", due, ok)
	}
	if due, ok := b.admit(up, 0, 1000, true); !ok || due != 2007*ms {
		t.Errorf("the second, to another host: %d, %v", due, ok)
	}
	if due, ok := b.admit(nil, 0, 1000, true); !ok || due != 2007*ms {
		t.Errorf("of another host, in order on its link: %d, %v", due, ok)
	}
	if _, ok := a.admit(up, 0, 1500, true); ok || a.count.Dropped != 1 {
		t.Errorf("there was room for %+v", a.count)
	}
	if due, ok := a.admit(up, 2500*ms, 500, true); !ok || due != 3005*ms {
		t.Errorf("when all has left: %d, %v", due, ok)
	}
}
