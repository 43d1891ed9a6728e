package route

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// learnt is what a fit knows after answers of a law beside others.
func learnt(r *rand.Rand, n int, took func(others float64) float64) *fit {
	var f fit
	now := time.Unix(1000, 0)
	for range n {
		others := float64(r.IntN(12))
		f.add(now, others, took(others))
		now = now.Add(10 * time.Millisecond)
	}
	return &f
}

// Endpoints that share processors slow their requests in proportion, whatever the law of the work:
// the slowing is found, and the time of a request alone.
func TestSlowingIsFound(t *testing.T) {
	for name, law := range map[string]func(*rand.Rand) float64{
		"fixed":       func(*rand.Rand) float64 { return 1 },
		"exponential": func(r *rand.Rand) float64 { return r.ExpFloat64() },
		"1 % × 100": func(r *rand.Rand) float64 {
			if r.IntN(100) == 0 {
				return 100
			}
			return 1
		},
	} {
		for _, processors := range []float64{1, 4, math.Inf(1)} {
			r := rand.New(rand.NewPCG(1, 2))
			f := learnt(r, 1000, func(others float64) float64 { return 0.05 * law(r) * slow(others, 1/processors) })
			x := f.fitted(&[len(curves)]float64{}, 1, 0)
			if math.Abs(x.kappa-1/processors) > 0.05 {
				t.Errorf("%s on %v processors: kappa is %.3f", name, processors, x.kappa)
			}
		}
	}
}

// One answer of a law with a heavy tail says little: with one of 500 times the work among a
// hundred, the endpoint is not taken for one that is slow.
func TestALongAnswerSaysLittle(t *testing.T) {
	var usual, once fit
	now := time.Unix(1000, 0)
	for i := range 100 {
		usual.add(now, 0, 0.01)
		took := 0.01
		if i == 50 {
			took *= 500
		}
		once.add(now, 0, took)
	}
	none := &[len(curves)]float64{}
	if slower := math.Exp(once.fitted(none, 1, 0).level - usual.fitted(none, 1, 0).level); slower > 1.1 {
		t.Errorf("it counts as %.2f times as slow", slower)
	}
}

// What was learnt long ago counts as fewer answers.
func TestWhatWasLearntAges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := learnt(r, 200, func(float64) float64 { return r.ExpFloat64() })
	before := f.weight(f.at, f.noise)
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		if w := f.weight(f.at.Add(age), f.noise); w >= before || w <= 0 {
			t.Errorf("after %v it counts as %v answers, before as %v", age, w, before)
		} else {
			before = w
		}
	}
	if w := f.weight(time.Time{}, f.noise); w != nowMemory {
		t.Errorf("without a time it counts as %v answers", w)
	}
}

// Own requests in flight are a sample of all: where reports tell of others in proportion to the own
// ones, as many are expected beside those that are there now.
func TestOwnRequestsTellOfOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	list := []Endpoint{{ID: "a", Ready: true}}
	l := &list[0].Load
	for k := range 200 {
		n := k % 4
		l.InFlight = n
		l.Report(now, 0, 5*n+n) // five of others for each own one
		now = now.Add(time.Second)
	}
	v := NewView(1, list)
	p := &fastest{looked: []int{0}, fits: make([]fitted, 1)}
	l = &v.Endpoints[0].Load
	for _, n := range []int{0, 3} {
		l.InFlight = n
		later := now.Add(time.Minute) // the newest report says nothing any more
		p.learn(v, later)
		if got, want := l.there(later, &p.common), float64(6*n); math.Abs(got-want) > 1.5 {
			t.Errorf("with %d own requests %.1f are there, want about %v", n, got, want)
		}
	}
}

// Only an endpoint that answers nothing hangs: the longer it is silent, and the more requests wait for
// it. One whose answers have begun, as with streams, does not, however long they take.
func TestSilence(t *testing.T) {
	now := time.Unix(1000, 0)
	var l Load
	for range 50 {
		s := l.Began(now)
		l.Heard(now)
		l.Ended(true)
		l.Answered(now, s, 100*time.Millisecond)
	}
	for range 5 {
		l.Began(now)
	}
	costs := func(waiting float64, after time.Duration) float64 { return l.hangs(now.Add(after), 0.1, waiting, 1) }
	if c := costs(5, 50*time.Millisecond); c != 0 {
		t.Errorf("it costs %v before an answer is late", c)
	}
	if one, five := costs(1, 2*time.Second), costs(5, 2*time.Second); one >= five || five < 1 {
		t.Errorf("silent for 2 s it costs %v with one request that waits, %v with five", one, five)
	}
	if c, d := costs(5, 2*time.Second), costs(5, 8*time.Second); d <= c {
		t.Errorf("after 2 s it costs %v, after 8 s %v", c, d)
	}
	l.Asleep = true
	if c := costs(5, time.Minute); c != 0 {
		t.Errorf("asleep it costs %v", c)
	}
	l.Asleep = false
	for range 5 {
		l.Heard(now.Add(time.Second))
	}
	if l.waiting != 0 || l.InFlight != 5 {
		t.Fatalf("%d wait, %d in flight", l.waiting, l.InFlight)
	}
	if c := costs(float64(l.waiting), time.Hour); c != 0 {
		t.Errorf("five streams cost %v", c)
	}
	l.Ended(true)
	if l.waiting != 0 {
		t.Errorf("%d wait", l.waiting)
	}
	l.Began(now)
	l.Ended(false) // it failed before an answer began
	if l.waiting != 0 {
		t.Errorf("%d wait after one failed", l.waiting)
	}
}

// An endpoint of which one report came long ago does not count as full because another one is: it gets
// requests as soon as the queue at the near one takes longer than the way.
func TestLittleKnownIsNotFull(t *testing.T) {
	now := time.Unix(1000, 0)
	list := []Endpoint{
		{ID: "near", Ready: true, RTT: time.Millisecond, Source: Measured},
		{ID: "far", Ready: true, RTT: 30 * time.Millisecond, Source: Measured},
	}
	answered := func(l *Load, others, times int) {
		l.Concurrency = 16
		for range times {
			s := l.Began(now)
			l.Heard(now)
			l.Ended(true)
			l.Report(now, others, 0)
			l.Answered(now, s, 10*time.Millisecond)
		}
	}
	answered(&list[0].Load, 800, 100)
	answered(&list[1].Load, 4, 1)
	v := NewView(1, list)
	i, ok := (&fastest{}).Pick(v, Request{Now: now.Add(2 * time.Second)})
	if !ok || v.Endpoints[i].ID != "far" {
		t.Errorf("it goes where 800 wait")
	}
}

// BenchmarkAnswered is what learning from an answer costs.
func BenchmarkAnswered(b *testing.B) {
	var l Load
	now := time.Unix(1000, 0)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		now = now.Add(time.Millisecond)
		s := l.Began(now)
		l.Heard(now)
		l.Report(now, n%3, 1)
		l.Answered(now, s, time.Duration(1+n%7)*time.Millisecond)
		if n%5 > 0 {
			l.Ended(true)
		} else if l.InFlight > 8 {
			for l.InFlight > 0 {
				l.Ended(true)
			}
		}
	}
}
