package sim

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/policy/scale"
)

// Pipe carries bytes in order, for all links through it.
type Pipe struct {
	// Rate in bytes per second; 0: no limit.
	Rate float64

	free time.Duration // when all its bytes are carried
}

// Link is the path between two places. Routers may share one.
type Link struct {
	// RTT of a packet on an idle link.
	RTT time.Duration
	// Up carries requests, Down answers; nil: no limit.
	Up, Down *Pipe
}

// carry returns how long bytes take to arrive, queued behind those before them.
func (l *Link) carry(now time.Duration, bytes int64, by *Pipe) time.Duration {
	took := l.RTT / 2
	if by != nil && by.Rate > 0 && bytes > 0 {
		by.free = max(by.free, now) + time.Duration(float64(bytes)/by.Rate*float64(time.Second))
		took += by.free - now
	}
	return took
}

// Call returns the duration of a call over the link with so many bytes.
func (l *Link) Call(w *World, bytes int64) time.Duration {
	return l.RTT/2 + l.carry(w.now+l.RTT/2, bytes, l.Down)
}

// Exchange carries a request over a link to take, and its answer back. Done gets what take said when the
// answer has arrived, and how long request and answer were on their way.
func Exchange[T any](w *World, l *Link, q *Request, take func(*Request, func(End, T)),
	done func(end End, said T, there, back time.Duration)) {
	there := l.carry(w.now, q.Body, l.Up)
	w.After(there, func() {
		take(q, func(end End, said T) {
			back := l.carry(w.now, q.Answer, l.Down)
			w.After(back, func() { done(end, said, there, back) })
		})
	})
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
	Exchange(t.w, t.l, q, t.to.Send, func(end End, by string, _, _ time.Duration) { done(end, by) })
}

// Router sends requests to pods by a policy. It sees what a real router sees, with the same delays.
type Router struct {
	w      *World
	place  string
	seed   uint64
	policy route.Policy
	links  func(to string) *Link
	view   route.View
	backs  []*backend // in the order of the view
	by     map[string]*backend
	sized  float64 // mean size of answers, as the expected one
	// lines are the rates to other places, learnt from bodies, and when they expire; zero: nothing
	// is known.
	lines map[string]*route.Line
	until time.Time

	// Admit is asked before a request is sent; nil admits all.
	Admit func(*Router) bool
}

// backend is a pod as the router knows it.
type backend struct {
	pod      *Pod
	link     *Link
	index    int // in the view; -1 once it is gone
	load     route.Load
	capacity scale.Capacity
}

// NewRouter creates a router at a place. Links returns the link to a place; nil is no distance.
func NewRouter(w *World, place string, p api.Policy, links func(to string) *Link) (*Router, error) {
	seed := w.Rand("router " + place).Uint64()
	policy, err := route.New(p, seed)
	if err != nil {
		return nil, fmt.Errorf("router at %s: %w", place, err)
	}
	return NewRouterOf(w, place, policy, seed, links), nil
}

// NewRouterOf is NewRouter with a policy outside the API.
func NewRouterOf(w *World, place string, p route.Policy, seed uint64, links func(to string) *Link) *Router {
	return &Router{w: w, place: place, policy: p, seed: seed, links: links, by: map[string]*backend{},
		lines: map[string]*route.Line{}}
}

// Use replaces the pods of the router. It keeps its knowledge of those that stay; requests in
// flight end as usual.
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
		e := route.Endpoint{ID: p.ID, Ready: true, Ordinal: i, Local: p.Place == r.place, Weight: p.Weight,
			RTT:  b.link.RTT,
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

// Place is its location.
func (r *Router) Place() string { return r.place }

// changed updates the view of the policy for a backend.
func (r *Router) changed(b *backend) {
	if b.index >= 0 {
		r.view.SetLoad(b.index, b.load)
	}
}

// Send sends a request; done is called once, when the answer has arrived, with the ID of the
// answering pod, "" for none. A refused request is retried once on another pod.
func (r *Router) Send(q *Request, done func(End, string)) {
	if r.Admit != nil && !r.Admit(r) {
		done(Unserved, "")
		return
	}
	r.try(q, nil, done)
}

// widen copies the learnt rate to a backend into its load.
func (r *Router) widen(b *backend) {
	if l := r.lines[b.pod.Place]; l != nil {
		now := r.w.Now()
		b.load.Bandwidth, b.load.Back, b.load.Trial = l.There.Known(now), l.Back.Known(now), l.Trial
		b.load.Clear = l.Clear
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

// line to the place of a backend; a throwaway one if nothing limits it.
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
	sent := b.load.Began(now)
	at := r.w.now
	r.changed(b)
	Exchange(r.w, b.link, q, b.pod.Take, func(end End, said scale.Report, there, back time.Duration) {
		// As in the running system, who receives says how long the body took, and it is known with
		// the answer.
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
			b.load.Answered(now, sent, took)
		}
		r.ended(q, b, end, said, tried, done)
	})
}

// ended handles an answer.
func (r *Router) ended(q *Request, b *backend, end End, said scale.Report, tried []string, done func(End, string)) {
	now := r.w.Now()
	b.load.Heard(now)
	b.load.Ended(true)
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

// Capacity is the estimated capacity of all pods in requests per second, and for how many it is
// known.
func (r *Router) Capacity() (rps float64, known int) {
	for _, b := range r.backs {
		if c, ok := b.capacity.RPS(); ok {
			rps += c
			known++
		}
	}
	return rps, known
}
