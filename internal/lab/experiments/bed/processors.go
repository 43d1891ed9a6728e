package bed

import (
	"math"
	"time"
)

// processors are what an instance computes with: they are shared by its requests, each of which uses
// one at most. It is a model, as that of sim.Pod, and needs no processor of the machine: who has it asks
// when the next request ends, waits until then, and tells it what time it is.
type processors struct {
	// count of them, above 0.
	count float64
	// at is the time up to which work was done.
	at    time.Time
	tasks []*task
}

// task is a request at work.
type task struct {
	left float64 // seconds of one processor
	done chan struct{}
}

// speed of each task, in processors.
func (p *processors) speed() float64 { return min(1, p.count/float64(len(p.tasks))) }

// next is how long after p.at the first task ends; false if there is none.
func (p *processors) next() (time.Duration, bool) {
	if len(p.tasks) == 0 {
		return 0, false
	}
	least := math.Inf(1)
	for _, t := range p.tasks {
		least = min(least, t.left)
	}
	// Rounded up: one nanosecond early there is work left.
	return time.Duration(max(0, least)/p.speed()*float64(time.Second)) + 1, true
}

// advance does the work until now, and ends the tasks that are done by then. Who comes late, as timers
// do on a busy machine, finds what was done at the right times: a task that ended leaves its processor to
// others from that moment on.
func (p *processors) advance(now time.Time) {
	for {
		in, some := p.next()
		if end := p.at.Add(in); some && !end.After(now) {
			p.work(in.Seconds())
			p.at = end
			continue
		}
		if now.After(p.at) {
			p.work(now.Sub(p.at).Seconds())
			p.at = now
		}
		return
	}
}

// work does what the tasks get in so many seconds, in which none comes and none ends before.
func (p *processors) work(seconds float64) {
	if len(p.tasks) == 0 {
		return
	}
	did := seconds * p.speed()
	kept := p.tasks[:0]
	for _, t := range p.tasks {
		if t.left -= did; t.left > 0 {
			kept = append(kept, t)
			continue
		}
		close(t.done)
	}
	clear(p.tasks[len(kept):])
	p.tasks = kept
}

// begin adds a task of so many seconds of one processor.
func (p *processors) begin(now time.Time, seconds float64) *task {
	p.advance(now)
	t := &task{seconds, make(chan struct{})}
	p.tasks = append(p.tasks, t)
	return t
}

// drop ends a task before it is done; one that is done already stays so.
func (p *processors) drop(now time.Time, t *task) {
	p.advance(now)
	for i, x := range p.tasks {
		if x == t {
			p.tasks = append(p.tasks[:i], p.tasks[i+1:]...)
			return
		}
	}
}
