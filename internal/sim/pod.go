package sim

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
)

// Request of a service.
type Request struct {
	// Work relative to the mean, see Law.
	Work float64
	// Body and Answer are sizes in bytes.
	Body, Answer int64
	// Came is when the client sent the request.
	Came time.Duration

	queued  time.Duration
	token   scale.Token
	left    float64 // of the work, with processor sharing
	done    func(End, scale.Report)
	running int // index in Pod.running
}

// End is how a request ended.
type End uint8

// Ends of a request.
const (
	Answered End = iota
	// Refused: the queue was full, or it was not ready.
	Refused
	// Unserved: no replica was available, or it was not admitted.
	Unserved
)

// Pod is a replica of a service. Its exported fields are set before Start; only Service may change
// later, and then applies to requests that start afterwards.
type Pod struct {
	// ID is unique in its service. Place is its location, see Router.
	ID, Place string
	// Slots is how many requests it executes at once; 0: any number.
	Slots int
	// QueueMax is how many may wait; 0: any number.
	QueueMax int
	// Hidden: the slots are internal and there is no queue in front of the pod: a request that
	// waits inside looks as if it were executed.
	Hidden bool
	// Service is how long a request of mean work takes on a processor of its own.
	Service time.Duration
	// Cores are shared among running requests, each using at most one; 0: each request has a
	// processor of its own.
	Cores float64
	// Before is how long a request holds its place before its work begins, to fetch data; nil is no
	// time. Not with Cores.
	Before func(*Request) time.Duration
	// Hangs are spans in which it does no work and answers nothing, in order and apart from each
	// other. Requests are still taken.
	Hangs []Hang
	// Weight is the result of a profile, for Endpoint.Weight.
	Weight float64
	// Agent is what an algorithm under study keeps at the pod for all its routers; nil: nothing.
	Agent any

	w       *World
	meter   scale.Meter
	queue   []*Request
	running []*Request
	joined  time.Time
	closed  bool

	// For processor sharing: when the remaining work was last updated, and which planned end is
	// valid.
	counted time.Duration
	plan    uint64
}

// Hang is a span of the world's time.
type Hang struct{ From, To time.Duration }

// worked is the part of a span in which the pod does not hang.
func (p *Pod) worked(from, to time.Duration) time.Duration {
	did := to - from
	for _, h := range p.Hangs {
		did -= max(0, min(to, h.To)-max(from, h.From))
	}
	return did
}

// takes is how long the pod needs for work from now on, hangs included.
func (p *Pod) takes(work time.Duration) time.Duration {
	end := p.w.now + work
	for _, h := range p.Hangs {
		if h.To > p.w.now && h.From <= end {
			end += h.To - max(h.From, p.w.now)
		}
	}
	return end - p.w.now
}

// Start makes the pod ready.
func (p *Pod) Start(w *World) *Pod {
	p.w, p.joined, p.meter = w, w.Now(), scale.NewMeter(w.Now())
	return p
}

// Close makes the pod refuse new requests and finish those that it has.
func (p *Pod) Close() { p.closed = true }

// Waiting counts queued requests, as only the pod itself knows.
func (p *Pod) Waiting() int { return len(p.queue) }

// Running counts executed requests.
func (p *Pod) Running() int { return len(p.running) }

// places are the slots that routers know.
func (p *Pod) places() int {
	if p.Hidden {
		return 0
	}
	return p.Slots
}

// Joined is when it was started.
func (p *Pod) Joined() time.Time { return p.joined }

// Report returns the current load report.
func (p *Pod) Report() scale.Report { return p.meter.Report(p.w.Now()) }

// Take queues a request; done is called once, when it ends, with the load report at that time.
func (p *Pod) Take(r *Request, done func(End, scale.Report)) {
	if p.closed || p.QueueMax > 0 && len(p.queue) >= p.QueueMax && !p.free() {
		done(Refused, p.Report())
		return
	}
	r.done, r.queued = done, p.w.now
	r.token = p.meter.Arrived(p.w.Now())
	if p.Hidden {
		p.meter.Started(&r.token, p.w.Now())
	}
	p.queue = append(p.queue, r)
	p.next()
}

func (p *Pod) free() bool { return p.Slots == 0 || len(p.running) < p.Slots }

// next starts queued requests that have a place.
func (p *Pod) next() {
	for len(p.queue) > 0 && p.free() {
		r := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		if !p.Hidden {
			p.meter.Started(&r.token, p.w.Now())
		}
		work := time.Duration(r.Work * float64(p.Service))
		if p.Cores > 0 {
			p.count()
		}
		if p.Before != nil {
			work += p.Before(r)
		}
		r.running, r.left = len(p.running), work.Seconds()
		p.running = append(p.running, r)
		if p.Cores > 0 {
			p.replan()
		} else {
			p.w.After(p.takes(work), func() { p.end(r) })
		}
	}
}

// end ends a request; the next one gets its place.
func (p *Pod) end(r *Request) {
	last := len(p.running) - 1
	p.running[r.running] = p.running[last]
	p.running[r.running].running = r.running
	p.running[last] = nil
	p.running = p.running[:last]
	p.meter.Finished(&r.token, p.w.Now())
	p.next()
	r.done(Answered, p.Report())
}

// speed of each running request, relative to one on a processor of its own.
func (p *Pod) speed() float64 { return min(1, p.Cores/float64(len(p.running))) }

// count subtracts the work done since the last call.
func (p *Pod) count() {
	if len(p.running) > 0 {
		did := p.worked(p.counted, p.w.now).Seconds() * p.speed()
		for _, r := range p.running {
			r.left -= did
		}
	}
	p.counted = p.w.now
}

// replan schedules the end of the request that ends first.
func (p *Pod) replan() {
	p.plan++
	if len(p.running) == 0 {
		return
	}
	plan, first := p.plan, p.running[0]
	for _, r := range p.running {
		if r.left < first.left {
			first = r
		}
	}
	// Rounded up: an end one nanosecond early would leave work undone.
	in := time.Duration(max(0, first.left)/p.speed()*float64(time.Second)) + 1
	p.w.After(p.takes(in), func() {
		if p.plan != plan {
			return
		}
		p.count()
		p.end(first)
		p.replan()
	})
}
