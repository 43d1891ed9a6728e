package scale

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// pod is a queue with places before an instance, driven in virtual time.
type pod struct {
	meter  Meter
	places int
	now    float64
	queue  []*Token
	run    []job
}

type job struct {
	token *Token
	ends  float64
}

func newPod(places int) *pod { return &pod{meter: NewMeter(t0), places: places} }

func (p *pod) arrive(now float64, exec func() float64) {
	p.until(now, exec)
	t := p.meter.Arrived(at(now))
	p.queue = append(p.queue, &t)
	p.start(now, exec)
}

func (p *pod) start(now float64, exec func() float64) {
	for len(p.queue) > 0 && len(p.run) < p.places {
		t := p.queue[0]
		p.queue = p.queue[1:]
		p.meter.Started(t, at(now))
		p.run = append(p.run, job{t, now + exec()})
	}
}

// until lets end what ends by then; each request that starts takes what exec draws.
func (p *pod) until(now float64, exec func() float64) {
	for len(p.run) > 0 {
		i := 0
		for k := range p.run {
			if p.run[k].ends < p.run[i].ends {
				i = k
			}
		}
		j := p.run[i]
		if j.ends > now {
			break
		}
		p.run = slices.Delete(p.run, i, i+1)
		p.meter.Finished(j.token, at(j.ends))
		p.now = j.ends
		p.start(j.ends, exec)
	}
	p.now = now
}

func TestMeterFlags(t *testing.T) {
	m := NewMeter(t0)
	a := m.Arrived(t0)
	m.Started(&a, t0)
	b := m.Arrived(t0) // nobody waits before it: no witness
	c := m.Arrived(t0) // b does: a witness
	m.Finished(&a, at(0.1))
	m.Started(&b, at(0.1))
	m.Finished(&b, at(0.2))
	m.Started(&c, at(0.2))
	if m.witnesses != 0 {
		t.Errorf("%d witnesses among requests that came to an empty queue", m.witnesses)
	}
	d := m.Arrived(at(0.25))
	e := m.Arrived(at(0.25))
	m.Finished(&c, at(0.3))
	if m.witnesses != 1 {
		t.Errorf("%d witnesses, want c", m.witnesses)
	}
	// Two run; the queue is found empty when d ends, which resets the flag of e.
	m.Started(&d, at(0.3))
	m.Started(&e, at(0.3))
	m.Finished(&d, at(0.4))
	m.Finished(&e, at(0.5))
	if m.witnesses != 1 {
		t.Errorf("%d witnesses: e ran beside an empty place", m.witnesses)
	}
	m.Finished(&e, at(0.6)) // twice is once
	if m.done != 5 || m.running != 0 || m.waiting != 0 {
		t.Errorf("done %d, running %d, waiting %d", m.done, m.running, m.waiting)
	}
}

func TestMeterInterval(t *testing.T) {
	for _, x := range []struct {
		exec, want time.Duration
	}{
		{10 * time.Millisecond, 100 * time.Millisecond},
		{time.Millisecond, 100 * time.Millisecond}, // not less
		{80 * time.Millisecond, time.Second},       // 0.8 s is near enough to 1 s
		{150 * time.Millisecond, time.Second},      // so is 1.5 s
		{300 * time.Millisecond, 3 * time.Second},  // not within a factor of two
		{5 * time.Second, 10 * time.Second},        // not more
		{40 * time.Millisecond, 400 * time.Millisecond},
	} {
		m := NewMeter(t0)
		tok := m.Arrived(t0)
		m.Started(&tok, t0)
		m.Finished(&tok, t0.Add(x.exec))
		if m.interval != x.want {
			t.Errorf("execution %v: interval %v, want %v", x.exec, m.interval, x.want)
		}
	}
}

// What a request waited for its client holds its place, and is no work.
func TestMeterWork(t *testing.T) {
	m := NewMeter(t0)
	for n, x := range []struct{ waited, want time.Duration }{
		{0, time.Second}, {800 * time.Millisecond, 600 * time.Millisecond}, {-time.Hour, 2200 * time.Millisecond / 3},
		{time.Hour, 550 * time.Millisecond}, // more than there was is all that there was
	} {
		tok := m.Arrived(at(float64(n)))
		m.Started(&tok, at(float64(n)))
		tok.Waited(x.waited)
		m.Finished(&tok, at(float64(n)+1))
		r := m.Report(at(float64(n) + 1))
		if r.Exec != time.Second || (r.Work-x.want).Abs() > time.Millisecond {
			t.Errorf("request %d: %v, of which %v was work, want %v", n, r.Exec, r.Work, x.want)
		}
	}
}

func TestMeterIdle(t *testing.T) {
	m := NewMeter(t0)
	tok := m.Arrived(t0)
	m.Started(&tok, t0)
	m.Finished(&tok, at(2))
	if m.interval != maxInterval {
		t.Fatalf("interval %v", m.interval)
	}
	if r := m.Report(at(12)); r.Rate != 0.1 {
		t.Errorf("one response in ten seconds: rate %v", r.Rate)
	}
	if r := m.Report(at(25)); r.Rate != 0 || r.Confidence != 0 || r.Exec != 2*time.Second {
		t.Errorf("after an idle interval: %+v", r)
	}
	m.Report(at(100))
	if m.interval != restInterval {
		t.Errorf("interval at rest: %v", m.interval)
	}
	// A day asleep costs no more than a bounded number of steps, and a clock that
	// runs backwards changes nothing.
	m.Report(at(86400))
	was := m
	if m.Report(at(5)); m != was {
		t.Errorf("the past changed the meter: %+v, was %+v", m, was)
	}
	// What runs long is not idle.
	tok = m.Arrived(at(86400))
	m.Started(&tok, at(86400))
	if r := m.Report(at(90000)); r.InFlight != 1 || r.Rate != 0 {
		t.Errorf("one that runs for an hour: %+v", r)
	}
	m.Failed(&tok, at(90001))
	if r := m.Report(at(90001)); r.InFlight != 0 || r.Exec != 2*time.Second {
		t.Errorf("one that failed says nothing of the time that requests take: %+v", r)
	}
}

func TestMeterAllocatesNothing(t *testing.T) {
	m, c := NewMeter(t0), Capacity{}
	now := t0
	if n := testing.AllocsPerRun(1000, func() {
		tok := m.Arrived(now)
		m.Started(&tok, now)
		now = now.Add(time.Millisecond)
		m.Finished(&tok, now)
		c.Observe(m.Report(now), 10, now)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// bare is the rule as the paper has it.
type bare struct{ cap, ratio, rate float64 }

func (b *bare) observe(r Report) {
	if r.Rate > 0 && r.Confidence > 0 && (r.Confidence >= b.ratio || r.Rate >= b.rate) {
		b.cap, b.ratio, b.rate = r.Rate/r.Confidence, r.Confidence, r.Rate
	}
}

func TestCapacityIsRight(t *testing.T) {
	for _, draw := range []struct {
		name  string
		exec  func(*rand.Rand) float64
		slack float64
	}{
		{"fixed", func(*rand.Rand) float64 { return 0.1 }, 0.001},
		{"exponential", func(r *rand.Rand) float64 { return 0.1 * r.ExpFloat64() }, 0.45},
		{"lognormal", func(r *rand.Rand) float64 { return 0.1 * math.Exp(0.5*r.NormFloat64()-0.125) }, 0.25},
	} {
		for _, load := range []float64{0.1, 0.5, 0.7, 0.9, 1.2} {
			r := rand.New(rand.NewPCG(1, uint64(load*10)))
			p, c, b := newPod(10), Capacity{}, bare{}
			var got, naive []float64
			for now := 0.0; now < 60; now += r.ExpFloat64() / (100 * load) {
				p.arrive(now, func() float64 { return draw.exec(r) })
				report := p.meter.Report(at(now))
				c.Observe(report, 10, at(now))
				b.observe(report)
				if rps, known := c.RPS(); known && now > 5 {
					got, naive = append(got, rps), append(naive, b.cap)
					if bound := 10 / report.Exec.Seconds(); rps > bound*1.0001 {
						t.Fatalf("%s at %v: %v, more than its places allow (%v)", draw.name, load, rps, bound)
					}
				}
				if len(p.queue) > 100 {
					p.queue = p.queue[:100]
				}
			}
			slices.Sort(got)
			slices.Sort(naive)
			mid := got[len(got)/2]
			low, high := got[len(got)/20], got[len(got)*19/20]
			t.Logf("%-12s load %.1f: median %.0f, 5%% to 95%% %.0f to %.0f; bare rule %.0f", draw.name, load, mid, low, high, naive[len(naive)/2])
			if math.Abs(mid-100) > 12 || low < 100*(1-draw.slack) || high > 100*(1+draw.slack) {
				t.Errorf("%s at %v: median %v, from %v to %v, it can do 100", draw.name, load, mid, low, high)
			}
			if m := naive[len(naive)/2]; draw.name == "fixed" && load == 0.7 && m < 150 {
				t.Errorf("%s at %v: the bare rule says %v: the correction would not be needed", draw.name, load, m)
			}
		}
	}
}

func TestCapacitySeesThatAReplicaGotSlower(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	p, c := newPod(10), Capacity{}
	slow := 1.0
	exec := func() float64 { return 0.1 * slow }
	for now := 0.0; now < 60; now += r.ExpFloat64() / 120 {
		if now > 30 {
			slow = 4
		}
		if len(p.queue) < 100 {
			p.arrive(now, exec)
		} else {
			p.until(now, exec)
		}
		c.Observe(p.meter.Report(at(now)), 10, at(now))
		rps, _ := c.RPS()
		if now > 20 && now < 30 && math.Abs(rps-100) > 5 {
			t.Fatalf("after %.1f s: %v, it can do 100", now, rps)
		}
		// An interval has 4 s when it is slow: 10 of them would be 40 s.
		if now > 42 && math.Abs(rps-25) > 5 {
			t.Fatalf("%.1f s after it became slow: %v, it can do 25", now-30, rps)
		}
	}
}

// Where the execution time says nothing, full intervals do.
func TestCapacityWithoutBoundGoesDown(t *testing.T) {
	var c Capacity
	now := t0
	for range 20 {
		now = now.Add(time.Second)
		c.Observe(Report{Rate: 100, Confidence: 1, Exec: 100 * time.Millisecond}, 0, now)
	}
	if rps, known := c.RPS(); rps != 100 || !known {
		t.Fatalf("%v, %v", rps, known)
	}
	for i := range 10 {
		if rps, _ := c.RPS(); rps != 100 {
			t.Fatalf("lowered after %d intervals", i)
		}
		now = now.Add(time.Second)
		c.Observe(Report{Rate: 30, Confidence: 1, Exec: 100 * time.Millisecond}, 0, now)
	}
	if rps, _ := c.RPS(); rps != 30 {
		t.Errorf("after 10 full intervals at 30/s: %v", rps)
	}
	// Less load is no less capacity.
	for range 50 {
		now = now.Add(time.Second)
		c.Observe(Report{Rate: 3, Exec: 100 * time.Millisecond}, 0, now)
	}
	if rps, _ := c.RPS(); rps != 30 {
		t.Errorf("after little load: %v", rps)
	}
}

func TestCapacityComesBack(t *testing.T) {
	var c Capacity
	now := t0
	for range 20 {
		now = now.Add(time.Second)
		c.Observe(Report{Rate: 10, Confidence: 1, Exec: time.Second}, 10, now)
	}
	if rps, _ := c.RPS(); rps != 10 {
		t.Fatalf("slow: %v", rps)
	}
	for range 1500 {
		now = now.Add(time.Second)
		c.Observe(Report{Rate: 5, Exec: 100 * time.Millisecond}, 10, now)
	}
	if rps, _ := c.RPS(); rps < 99 || rps > 100 {
		t.Errorf("fast again: %v", rps)
	}
}

func TestCapacityBadReports(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	var c Capacity
	if _, known := c.RPS(); known {
		t.Error("the zero value knows something")
	}
	for _, r := range []Report{
		{Rate: nan}, {Rate: inf}, {Rate: -1}, {Confidence: nan}, {Confidence: 1.1, Rate: 1}, {Confidence: -1},
		{Exec: -1}, {Queue: -1}, {InFlight: -1}, {CPU: nan}, {Memory: inf},
	} {
		if c.Observe(r, 10, t0) {
			t.Errorf("%+v was taken", r)
		}
	}
	if c != (Capacity{}) {
		t.Errorf("bad reports left something: %+v", c)
	}
	c.Observe(Report{}, 10, t0)
	if _, known := c.RPS(); known {
		t.Error("an empty report says something")
	}
	c.Observe(Report{Rate: math.MaxFloat64, Confidence: math.SmallestNonzeroFloat64}, 0, t0)
	if rps, _ := c.RPS(); math.IsInf(rps, 0) {
		t.Error("infinite")
	}
	c.Observe(Report{Exec: 50 * time.Millisecond}, 10, t0)
	if rps, known := c.RPS(); rps != 200 || !known {
		t.Errorf("before its first interval: %v, %v", rps, known)
	}
}
