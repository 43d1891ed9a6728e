package bed

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

func ended(t *task) bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Three tasks on two processors, by hand: all get two thirds of one until the first ends.
func TestProcessorsAreShared(t *testing.T) {
	begin := time.Unix(1000, 0)
	p := &processors{count: 2, at: begin}
	a, b, c := p.begin(begin, 1), p.begin(begin, 2), p.begin(begin, 2)
	if in, ok := p.next(); !ok || math.Abs(in.Seconds()-1.5) > 1e-6 {
		t.Errorf("the first ends after %v", in)
	}
	p.advance(begin.Add(1499 * time.Millisecond))
	if ended(a) {
		t.Error("it ended early")
	}
	p.advance(begin.Add(2499 * time.Millisecond))
	if !ended(a) || ended(b) || ended(c) {
		t.Error("b and c have a processor each from then on, and need a second more")
	}
	p.advance(begin.Add(10 * time.Second))
	if _, ok := p.next(); ok || !ended(b) || !ended(c) {
		t.Error("there is work left")
	}
	d := p.begin(begin.Add(11*time.Second), 5)
	p.drop(begin.Add(12*time.Second), d)
	if _, ok := p.next(); ok || ended(d) {
		t.Error("what was dropped is at work, or done")
	}
}

// Requests take as long as at pods of virtual time, and it does not matter how seldom somebody looks.
func TestProcessorsAreThoseOfVirtualTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := float64(rapid.IntRange(1, 4).Draw(t, "count"))
		w := sim.New(1)
		pod := (&sim.Pod{ID: "pod", Service: time.Second, Cores: count}).Start(w)
		begin := time.Unix(1000, 0)
		often, seldom := &processors{count: count, at: begin}, &processors{count: count, at: begin}
		var tasks []*task
		var want, got []time.Duration
		// look at what has ended, each millisecond until then.
		look := func(until time.Duration) {
			for w.Elapsed() < until {
				w.Run(time.Millisecond)
				often.advance(begin.Add(w.Elapsed()))
				for i, x := range tasks {
					if got[i] == 0 && ended(x) {
						got[i] = w.Elapsed()
					}
				}
			}
		}
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			at += time.Duration(rapid.IntRange(0, 800).Draw(t, "gap")) * time.Millisecond
			look(at)
			work := float64(rapid.IntRange(1, 3000).Draw(t, "work")) / 1000
			want, got = append(want, 0), append(got, 0)
			pod.Take(&sim.Request{Work: work}, func(sim.End, scale.Report) { want[i] = w.Elapsed() })
			tasks = append(tasks, often.begin(begin.Add(at), work))
			seldom.begin(begin.Add(at), work)
			sum, lazy := 0.0, 0.0
			for _, x := range often.tasks {
				sum += x.left
			}
			for _, x := range seldom.tasks {
				lazy += x.left
			}
			if math.Abs(sum-lazy) > 1e-6 {
				t.Fatalf("%v are left, and %v if nobody looked meanwhile", sum, lazy)
			}
		}
		look(at + time.Minute)
		for i := range tasks {
			if off := got[i] - want[i]; off < -time.Millisecond || off > time.Millisecond {
				t.Fatalf("task %d ended after %v, in virtual time after %v", i, got[i], want[i])
			}
		}
	})
}
