package rival

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

func TestScore(t *testing.T) {
	f := feedback{response: 0.3, service: 0.1, queue: 2}
	// q̂ = 1 + 2·4 + 2 = 11.
	if got, want := score(f, 2, 4), 0.3-0.1+11*11*11*0.1; math.Abs(got-want) > 1e-9 {
		t.Errorf("score %v, want %v", got, want)
	}
	fast, slow := feedback{response: 0.1, service: 0.1, queue: 3}, feedback{response: 0.4, service: 0.4}
	if score(fast, 0, 1) <= score(slow, 0, 1) {
		t.Error("four times as fast, with a queue of three: the cube makes it the worse one")
	}
	fast.queue = 0.5
	if score(fast, 0, 1) >= score(slow, 0, 1) {
		t.Error("with hardly a queue the faster one is the better one")
	}
}

func TestFeedbackIsAveraged(t *testing.T) {
	var f feedback
	f.learn(200*ms, scale.Report{Queue: 1, InFlight: 3, Exec: 100 * ms})
	if f != (feedback{true, 0.2, 0.1, 4}) {
		t.Errorf("the first is all there is: %+v", f)
	}
	f.learn(300*ms, scale.Report{Exec: 100 * ms})
	if math.Abs(f.response-(0.2+newest*0.1)) > 1e-9 || math.Abs(f.queue-(4-newest*4)) > 1e-9 {
		t.Errorf("the second: %+v", f)
	}
}

// While answers come more slowly than the rate, it is cut to a fifth at a time; while they come
// faster, it grows to the saddle, rests there and grows on.
func TestRateControl(t *testing.T) {
	var now time.Duration
	l := newLimiter(now)
	for l.rate == firstRate {
		now += interval // an answer in each interval, a tenth of the rate
		l.answered(now)
	}
	if l.rate != beta*firstRate || l.saddle != firstRate || l.decreased != now || now <= hysteresis {
		t.Fatalf("after %v: %+v", now, l)
	}
	before := l.rate
	for range 100 { // 25 answers in an interval
		now += interval
		for range 25 {
			if l.answered(now); l.rate > before+maxStep {
				t.Fatalf("%v after %v is more than a step", l.rate, before)
			}
			before = l.rate
		}
	}
	if l.rate <= firstRate {
		t.Errorf("it has not grown above the saddle: %+v", l)
	}
	k := time.Duration(math.Cbrt(beta*20/gamma) * float64(ms)) // the middle of the saddle
	for since, want := range map[time.Duration]float64{0: 16, k: 20, k - 50*ms: 19.5, k + 50*ms: 20.5, 2 * k: 24} {
		if got := cubic(since, 20); math.Abs(got-want) > 0.01 {
			t.Errorf("%v after the decrease from 20: %v, want %v", since, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	l := newLimiter(0)
	l.rate = 0.5
	for range burst {
		if l.wait(0) != 0 {
			t.Fatal("there are tokens")
		}
		l.take(0)
	}
	wait := l.wait(0)
	if wait < 2*interval || wait > 2*interval+1 {
		t.Errorf("at one in two intervals, the next may go after %v", wait)
	}
	if l.wait(wait) != 0 {
		t.Error("and then it may not")
	}
}

// When all pods are at their rate, requests wait and are sent in order; none is lost.
func TestBacklog(t *testing.T) {
	w := sim.New(1)
	c := NewC3(w, "here", 1, nil)
	pod := (&sim.Pod{ID: "p", Service: ms}).Start(w)
	c.Use([]*sim.Pod{pod})
	var order []int
	for i := range 2 * burst {
		c.Send(&sim.Request{Work: 1}, func(end sim.End, _ string) {
			if end == sim.Answered {
				order = append(order, i)
			}
		})
	}
	if len(c.backlog) != burst {
		t.Fatalf("%d wait", len(c.backlog))
	}
	w.Run(ms / 2)
	if pod.Running() != burst {
		t.Errorf("%d run", pod.Running())
	}
	w.Run(10 * time.Second)
	if len(order) != 2*burst || !slices.IsSorted(order) {
		t.Errorf("answered: %v", order)
	}
	for range 2 * burst {
		c.Send(&sim.Request{Work: 1}, func(end sim.End, _ string) {
			if end == sim.Unserved {
				order = append(order, -1)
			}
		})
	}
	left := len(c.backlog)
	c.Use(nil)
	if left == 0 || len(order) != 2*burst+left || len(c.backlog) != 0 {
		t.Errorf("without pods, those that wait are unserved: %d of %d", len(order)-2*burst, left)
	}
}
