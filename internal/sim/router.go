package sim

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/policy/scale"
)

// Pipe carries bytes one after the other, for all links that lead through it.
type Pipe struct {
	// Rate in bytes per second; 0: no limit.
	Rate float64

	free time.Duration // when what it has is carried
}

// Link is the path between two places. Several routers may share one.
type Link struct {
	// RTT of a packet on an idle link.
	RTT time.Duration
	// Up carries what leaves here, Down what comes back; nil: no limit.
	Up, Down *Pipe
}

// carry returns how long it takes until so many bytes have arrived, of which the
// last is sent when those before it are.
func (l *Link) carry(now time.Duration, bytes int64, by *Pipe) time.Duration {
	took := l.RTT / 2
	if by != nil && by.Rate > 0 && bytes > 0 {
		by.free = max(by.free, now) + time.Duration(float64(bytes)/by.Rate*float64(time.Second))
		took += by.free - now
	}
	return took
}

// Call returns how long it takes to ask over the link for so many bytes.
func (l *Link) Call(w *World, bytes int64) time.Duration {
	return l.RTT/2 + l.carry(w.now+l.RTT/2, bytes, l.Down)
}

// Through is a sender at the other end of a link.
func Through(w *World, l *Link, to Sender) Sender { return &through{w, l, to} }

type through struct {
	w  *World
	l  *Link
	to Sender
}

// Send implements Sender.
func (t *through) Send(q *Request, done func(End, string)) {
	t.w.After(t.l.carry(t.w.now, q.Body, t.l.Up), func() {
		t.to.Send(q, func(end End, by string) {
			t.w.After(t.l.carry(t.w.now, q.Answer, t.l.Down), func() { done(end, by) })
		})
	})
}

// Router sends requests to pods by a policy. It sees what a router of the running
// system sees, with the same delays.
type Router struct {
	w      *World
	place  string
	seed   uint64
	policy route.Policy
	links  func(to string) *Link
	view   route.View
	backs  []*backend // in the order of the view
	by     map[string]*backend
	sized  float64 // mean size of answers, for what is to be expected
	// lines to other places, as bodies have shown them, and when something of that is too
	// old; zero: nothing is known.
	lines map[string]*route.Line
	until time.Time

	// Admit is asked before a request is sent; nil admits all.
	Admit func(*Router) bool
}

// backend is a pod as a router knows it.
type backend struct {
	pod      *Pod
	link     *Link
	index    int // in the view; -1 once it is gone
	load     route.Load
	capacity scale.Capacity
}

// NewRouter at a place. Links says how it reaches a place; nil is no distance.
func NewRouter(w *World, place string, p api.Policy, links func(to string) *Link) (*Router, error) {
	seed := w.Rand("router " + place).Uint64()
	policy, err := route.New(p, seed)
	if err != nil {
		return nil, fmt.Errorf("router at %s: %w", place, err)
	}
	return NewRouterOf(w, place, policy, seed, links), nil
}

// NewRouterOf is NewRouter with a policy that is no value of the API.
func NewRouterOf(w *World, place string, p route.Policy, seed uint64, links func(to string) *Link) *Router {
	return &Router{w: w, place: place, policy: p, seed: seed, links: links, by: map[string]*backend{},
		lines: map[string]*route.Line{}}
}

// Use replaces the pods that the router sends to. What it knows of those that stay,
// it keeps; requests that are under way end as they would.
func (r *Router) Use(pods []*Pod) {
	list := make([]route.Endpoint, 0, len(pods))
	now := map[string]*backend{}
	for i, p := range pods {
		b := r.by[p.ID]
		if b == nil || b.pod != p {
			b = &backend{pod: p, link: &Link{}}
			if r.links != nil {
				if l := r.links(p.Place); l != nil {
					b.link = l
				}
			}
			b.load.Concurrency, b.load.Joined = p.places(), p.joined
			r.widen(b)
		}
		now[p.ID] = b
		e := route.Endpoint{ID: p.ID, Ready: true, Ordinal: i, Local: p.Place == r.place, Weight: p.Weight, RTT: b.link.RTT,
			Load: b.load}
		if b.link.RTT > 0 {
			e.Source = route.Measured
		}
		list = append(list, e)
	}
	for _, b := range r.by {
		b.index = -1
	}
	r.by, r.view = now, route.NewView(r.seed, list)
	r.backs = make([]*backend, len(r.view.Endpoints))
	for i := range r.view.Endpoints {
		b := now[r.view.Endpoints[i].ID]
		b.index, r.backs[i] = i, b
	}
}

// View is what the router knows.
func (r *Router) View() route.View { return r.view }

// Place is where it is.
func (r *Router) Place() string { return r.place }

// changed puts what is known of a backend where the policy sees it.
func (r *Router) changed(b *backend) {
	if b.index >= 0 {
		r.view.SetLoad(b.index, b.load)
	}
}

// Send a request; done is called once, when its answer has arrived here, with the
// ID of the pod that gave it, "" for none. A request that a pod refuses is tried
// once more, with another.
func (r *Router) Send(q *Request, done func(End, string)) {
	if r.Admit != nil && !r.Admit(r) {
		done(Unserved, "")
		return
	}
	r.try(q, nil, done)
}

// widen puts what is known of the line to a backend into its load.
func (r *Router) widen(b *backend) {
	if l := r.lines[b.pod.Place]; l != nil {
		now := r.w.Now()
		b.load.Bandwidth, b.load.Back, b.load.Trial = l.There.Known(now), l.Back.Known(now), l.Trial
		if until := l.Until(now); !until.IsZero() && (r.until.IsZero() || until.Before(r.until)) {
			r.until = until
		}
	}
}

// widened is widen for all backends at a place, "" for all.
func (r *Router) widened(place string) {
	for _, b := range r.backs {
		if place == "" || b.pod.Place == place {
			r.widen(b)
			r.changed(b)
		}
	}
}

// line to the place of a backend; one that is thrown away where nothing bounds it.
func (r *Router) line(b *backend) *route.Line {
	l := r.lines[b.pod.Place]
	if l == nil {
		l = &route.Line{}
		if b.link.Up != nil || b.link.Down != nil {
			r.lines[b.pod.Place] = l
		}
	}
	return l
}

func (r *Router) try(q *Request, tried []string, done func(End, string)) {
	now := r.w.Now()
	if !r.until.IsZero() && !now.Before(r.until) {
		r.until = time.Time{}
		r.widened("")
	}
	i, ok := r.policy.Pick(r.view, route.Request{Tried: tried, Bytes: q.Body, Answer: int64(r.sized), Now: now})
	if !ok {
		done(Unserved, "")
		return
	}
	b := r.backs[i]
	line, rtt := r.line(b), b.link.RTT
	mine, news := line.Try(now, q.Body, int64(r.sized))
	if news {
		r.widened(b.pod.Place)
	}
	sent := b.load.Began()
	at := r.w.now
	r.changed(b)
	there := b.link.carry(r.w.now, q.Body, b.link.Up)
	r.w.After(there, func() {
		b.pod.Take(q, func(end End, said scale.Report) {
			back := b.link.carry(r.w.now, q.Answer, b.link.Down)
			r.w.After(back, func() {
				// As in the running system, who receives says how long the body took, and it
				// is known with the answer.
				now, news := r.w.Now(), mine
				for _, way := range []struct {
					back  bool
					bytes int64
					took  time.Duration
				}{{false, q.Body, there - rtt/2}, {true, q.Answer, back - rtt/2}} {
					news = line.Crossed(now, way.back, way.bytes, float64(way.bytes)/way.took.Seconds(), true) || news
				}
				if mine {
					line.Tried()
				}
				if news {
					r.widened(b.pod.Place)
				}
				if end == Answered {
					took := r.w.now - at - back - rtt/2
					if q.Body >= route.LargeBody { // else its way is part of what requests take there
						took -= there - rtt/2
					}
					b.load.Answered(sent, took)
				}
				r.ended(q, b, end, said, tried, done)
			})
		})
	})
}

// ended is when the answer has come.
func (r *Router) ended(q *Request, b *backend, end End, said scale.Report, tried []string, done func(End, string)) {
	now := r.w.Now()
	b.load.Ended()
	b.load.Report(now, said.Queue, said.InFlight)
	if b.capacity.Observe(said, b.pod.places(), now) {
		b.load.Exec = said.Exec
		if rps, known := b.capacity.RPS(); known {
			b.load.Capacity = rps
		}
	}
	r.changed(b)
	if end == Refused && len(tried) == 0 {
		r.try(q, append(tried, b.pod.ID), done)
		return
	}
	r.sized += 0.05 * (float64(q.Answer) - r.sized)
	done(end, b.pod.ID)
}

// Capacity is what the router takes the pods together to be able to, in requests
// per second, and of how many of them it knows that.
func (r *Router) Capacity() (rps float64, known int) {
	for _, b := range r.backs {
		if c, ok := b.capacity.RPS(); ok {
			rps += c
			known++
		}
	}
	return rps, known
}
