package rival

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

// newest is the weight of a new measurement in the averages. The paper names no value. Its authors' code has
// 0.9; 0.1 does better here, where the time of one request says little about the next.
const newest = 0.1

// C3 ranks pods by a score of their feedback (section 3.1) and limits the rate of requests to each
// (section 3.2). While all are at their limit, requests wait in a backlog.
type C3 struct {
	w       *sim.World
	rand    *rand.Rand
	routers int
	links   func(to string) *sim.Link
	peers[c3Peer]

	backlog []pending[c3Peer] // first in, first out
	wake    time.Duration     // when the backlog is tried again; meaningful if there is one
}

var _ sim.Sender = (*C3)(nil)

// c3Peer is a pod as a client of C3 knows it.
type c3Peer struct {
	pod  *sim.Pod
	link *sim.Link
	rate limiter
	// sent counts the requests without an answer.
	sent int
	feedback
}

// feedback has the averages of what answers said.
type feedback struct {
	known                    bool
	response, service, queue float64 // seconds, seconds, requests
}

// NewC3 creates a client at a place. Routers is how many clients share the pods, itself included, 1 or
// more. Links returns the link to a place; nil is no distance.
func NewC3(w *sim.World, place string, routers int, links func(to string) *sim.Link) *C3 {
	return &C3{w: w, rand: w.Rand("c3 " + place), routers: routers, links: links}
}

// Use replaces the pods and keeps what is known of those that stay. Requests in flight end as usual.
func (c *C3) Use(pods []*sim.Pod) {
	c.use(pods, func(p *sim.Pod) *c3Peer {
		return &c3Peer{pod: p, link: linkTo(c.links, p.Place), rate: newLimiter(c.w.Elapsed())}
	})
	c.drain()
}

// Send implements sim.Sender.
func (c *C3) Send(q *sim.Request, done func(sim.End, string)) {
	c.queue(pending[c3Peer]{q: q, done: done})
}

// queue sends a request behind those of the backlog.
func (c *C3) queue(r pending[c3Peer]) {
	c.backlog = append(c.backlog, r)
	if len(c.backlog) == 1 {
		c.drain()
	}
}

// drain sends from the backlog until no pod is within its rate (algorithm 1), and then waits for one.
func (c *C3) drain() {
	for len(c.backlog) > 0 {
		r := c.backlog[0]
		best, wait := c.pick(r.tried)
		if best == nil && wait < never {
			c.later(wait)
			return
		}
		c.backlog[0] = pending[c3Peer]{}
		c.backlog = c.backlog[1:]
		if best == nil {
			r.done(sim.Unserved, "")
			continue
		}
		c.send(best, r)
	}
}

// later tries the backlog again after a time, unless that is planned for then or before.
func (c *C3) later(wait time.Duration) {
	now := c.w.Elapsed()
	at := now + wait
	if c.wake > now && c.wake <= at {
		return
	}
	c.wake = at
	c.w.After(wait, func() {
		if c.wake == at {
			c.drain()
		}
	})
}

const never = time.Duration(math.MaxInt64)

// pick returns the pod of the lowest score that is within its rate, or the time until one is: never if
// there is no other than the one tried.
func (c *C3) pick(tried *c3Peer) (best *c3Peer, wait time.Duration) {
	now, prior := c.w.Elapsed(), c.prior()
	wait = never
	least, ties := 0.0, 0
	for _, p := range c.list {
		if p == tried {
			continue
		}
		if in := p.rate.wait(now); in > 0 {
			wait = min(wait, in)
			continue
		}
		f := p.feedback
		if !f.known {
			f = prior
			f.response += p.link.RTT.Seconds()
			f.queue = p.queue // a full one refuses, and says so
		}
		s := score(f, p.sent, c.routers)
		switch {
		case best == nil || s < least:
			best, least, ties = p, s, 1
		case s == least:
			// Among equals at random, or all clients would begin with the same pod.
			if ties++; c.rand.IntN(ties) == 0 {
				best = p
			}
		}
	}
	return best, wait
}

// prior is what is assumed of a pod that has not answered yet: an empty queue and the shortest service
// time known. The paper does not say; with zeros, a new pod would get all requests until it answers.
func (c *C3) prior() feedback {
	f := feedback{service: math.Inf(1)}
	for _, p := range c.list {
		if p.known && p.service > 0 {
			f.service = min(f.service, p.service)
		}
	}
	if math.IsInf(f.service, 1) {
		f.service = 1 // any, the same for all
	}
	f.response = f.service
	return f
}

// score of a pod with so many requests outstanding here, lower is better: Ψ = R̄ − 1/μ̄ + q̂³/μ̄ with the
// queue q̂ = 1 + os·n + q̄ (section 3.1). The cube makes long queues on fast pods worse than short ones on
// slow pods; os·n extrapolates from this client to all.
func score(f feedback, outstanding, routers int) float64 {
	q := 1 + float64(outstanding*routers) + f.queue
	return f.response - f.service + q*q*q*f.service
}

// send sends a request to a pod, whose rate allows it.
func (c *C3) send(p *c3Peer, r pending[c3Peer]) {
	p.rate.take(c.w.Elapsed())
	p.sent++
	sent := c.w.Elapsed()
	sim.Exchange(c.w, p.link, r.q, p.pod.Take, func(end sim.End, said scale.Report, _, _ time.Duration) {
		now := c.w.Elapsed()
		p.sent--
		p.rate.answered(now)
		if end == sim.Answered {
			p.learn(now-sent, said)
		} else {
			p.queue += newest * (float64(said.Queue+said.InFlight) - p.queue)
		}
		if end == sim.Refused && r.tried == nil {
			c.queue(pending[c3Peer]{r.q, r.done, p})
		} else {
			r.done(end, p.pod.ID)
		}
		c.drain()
	})
}

// learn takes the response time of an answer and the feedback in it.
func (f *feedback) learn(took time.Duration, said scale.Report) {
	weight := newest
	if !f.known {
		f.known, weight = true, 1
	}
	f.response += weight * (took.Seconds() - f.response)
	f.service += weight * (said.Exec.Seconds() - f.service)
	f.queue += weight * (float64(said.Queue+said.InFlight) - f.queue)
}
