package sim

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
)

// Request is one of a service.
type Request struct {
	// Work next to the mean, see Law.
	Work float64
	// Body and Answer are the bytes of each direction.
	Body, Answer int64
	// Came is when the client sent it.
	Came time.Duration

	queued  time.Duration
	token   scale.Token
	left    float64 // of the work, where it is shared
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
	// Unserved: there was no replica to send it to, or it was not admitted.
	Unserved
)

// Pod is a replica of a service. Its exported fields are set before Start and not
// changed afterwards, but for Service, which counts for requests that start later.
type Pod struct {
	// ID is unique in its service. Place is where it is, see Router.
	ID, Place string
	// Slots is how many requests it executes at once; 0: any number.
	Slots int
	// QueueMax is how many may wait; 0: any number.
	QueueMax int
	// Hidden: the slots are its own, and its router has no queue in front of it: what
	// waits within it is executed as far as anybody can see.
	Hidden bool
	// Service is how long a request of mean work takes when it has a processor for
	// itself.
	Service time.Duration
	// Cores share their time between all that is executed, none running on more than
	// one; 0: each request has a processor for itself.
	Cores float64
	// Before is how long a request has its place before its work begins, for what it
	// must fetch; nil is no time. Not with Cores.
	Before func(*Request) time.Duration
	// Weight is what a profile says of it, for Endpoint.Weight.
	Weight float64

	w       *World
	meter   scale.Meter
	queue   []*Request
	running []*Request
	joined  time.Time
	closed  bool

	// Of processor sharing: when the work that is left was counted last, and which of
	// the planned ends is valid.
	counted time.Duration
	plan    uint64
}

// Start makes the pod ready for requests, now.
func (p *Pod) Start(w *World) *Pod {
	p.w, p.joined, p.meter = w, w.Now(), scale.NewMeter(w.Now())
	return p
}

// Close lets the pod refuse what comes from now on; what it has it finishes.
func (p *Pod) Close() { p.closed = true }

// Waiting and Running requests, as only the pod itself knows them.
func (p *Pod) Waiting() int { return len(p.queue) }

// Running requests.
func (p *Pod) Running() int { return len(p.running) }

// places are the slots that routers know of.
func (p *Pod) places() int {
	if p.Hidden {
		return 0
	}
	return p.Slots
}

// Joined is when it was started.
func (p *Pod) Joined() time.Time { return p.joined }

// Report of now.
func (p *Pod) Report() scale.Report { return p.meter.Report(p.w.Now()) }

// Take puts a request into the queue; done is called once, when it has ended there,
// with the load report of that moment.
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

// next starts what has a place.
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
			p.w.After(work, func() { p.end(r) })
		}
	}
}

// end of a request: its place is the next one's.
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

// speed of each that runs, next to one that has a processor for itself.
func (p *Pod) speed() float64 { return min(1, p.Cores/float64(len(p.running))) }

// count takes off what was done since the last time.
func (p *Pod) count() {
	if len(p.running) > 0 {
		did := (p.w.now - p.counted).Seconds() * p.speed()
		for _, r := range p.running {
			r.left -= did
		}
	}
	p.counted = p.w.now
}

// replan the end of whatever ends first, as things are now.
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
	// Rounded up: an end a nanosecond early would leave work undone.
	in := time.Duration(max(0, first.left)/p.speed()*float64(time.Second)) + 1
	p.w.After(in, func() {
		if p.plan != plan {
			return
		}
		p.count()
		p.end(first)
		p.replan()
	})
}
