package router

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// A worker that is there and silent (stopped, or behind a link that swallows
// everything) does not refuse a connection, it lets it wait for seconds. Nothing of
// the client has been sent until a connection is open, so whoever waits for one
// longer than it usually takes goes on elsewhere, and the first that opens wins.
// The slow one is not given up: it finds out whether the endpoint is there.
const (
	// MinHedgeAfter with a connection to another worker, and maxHedgeAfter where it
	// usually takes long.
	MinHedgeAfter = 250 * time.Millisecond
	MaxHedgeAfter = 2 * time.Second
	// hedgeFactor is how many times the usual is too long.
	hedgeFactor = 3
)

// HedgeAfter is how long a connection to e may take until others are tried.
func (e *Endpoint) HedgeAfter() time.Duration {
	return min(max(hedgeFactor*time.Duration(e.took.Load()), MinHedgeAfter), MaxHedgeAfter)
}

// Opened notes how long a connection took: an average in which the last four or so
// count.
func (e *Endpoint) Opened(took time.Duration) {
	if old := e.took.Load(); old != 0 {
		took = (3*time.Duration(old) + took) / 4
	}
	e.took.Store(int64(max(took, 1)))
}

// hedge watches over a connection that is being opened to an endpoint of another
// worker. When it takes too long, all endpoints behind its address are late, and
// who waits for one of them goes on. done ends that.
func (r *Services) hedge(e *Endpoint) (done func()) {
	var mu sync.Mutex // guards below
	var late []*Endpoint
	var over bool
	t := time.AfterFunc(e.HedgeAfter(), func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		late = r.table.Load().byAddress[e.Address]
		if len(late) == 0 {
			late = []*Endpoint{e} // of a table that was replaced meanwhile
		}
		for _, x := range late {
			x.late.Add(1)
			x.cancelWaiters()
		}
	})
	return func() {
		if t.Stop() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, x := range late {
			x.late.Add(-1)
		}
	}
}

// IsLate says whether connections to the endpoint take too long to open now.
func (e *Endpoint) IsLate() bool { return e.late.Load() > 0 }

// CancelAll takes back all requests that wait for the endpoint, whether or not they have a
// connection, and returns how many there were.
func (e *Endpoint) CancelAll(why error) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.waiting {
		w.State.Store(WaitCanceled)
		w.Abandon(why)
	}
	return len(e.waiting)
}

// cancelWaiters takes back the requests that wait for a connection to the endpoint and
// can go elsewhere.
func (e *Endpoint) cancelWaiters() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.waiting {
		if w.Elsewhere && w.State.CompareAndSwap(WaitsForConn, WaitCanceled) {
			w.Abandon(failure.ErrSlowWorker)
		}
	}
}

// Picker picks the endpoints for one client, each once; those that are
// late come last.
type Picker struct {
	Service   *Service
	Distances Distances
	Request   bool  // for a request, which then counts in the load of what is picked
	Body      int64 // of that, see call
	Back      int64 // of the answer that is to be expected, in bytes
	Sent      route.Sent
	At        time.Time // when it was picked, for a request
	Tried     []string
	later     []*Endpoint
}

// Next is nil where there is none left. more: there is another that can be tried
// instead of waiting for it.
func (p *Picker) Next() (e *Endpoint, more bool) {
	for len(p.Tried) < maxTries {
		e, more := p.pick()
		if e == nil {
			break
		}
		p.Tried = append(p.Tried, e.id)
		if !e.IsLate() {
			return e, more || len(p.later) > 0
		}
		p.later = append(p.later, e)
		if p.Request {
			p.Service.Ended(e, false)
		}
	}
	if len(p.later) == 0 {
		return nil, false
	}
	e, p.later = p.later[0], p.later[1:]
	if p.Request {
		p.At = time.Now()
		p.Sent = p.Service.Began(e, p.At)
	}
	// Behind its address all are as late as it is: another connection there would only
	// make that worse for a worker that is busy.
	return e, slices.ContainsFunc(p.later, func(x *Endpoint) bool { return x.Address != e.Address })
}

func (p *Picker) pick() (e *Endpoint, more bool) {
	if p.Request {
		p.At = time.Now()
		e, p.Sent, p.Back, more = p.Service.pickFor(p.At, p.Distances, p.Tried, p.Body)
		return e, more
	}
	return p.Service.pick(p.Distances, p.Tried)
}

// Again puts back an endpoint that was not waited for.
func (p *Picker) Again(e *Endpoint) { p.later = append(p.later, e) }

// attempt is what came of one try to open a connection.
type attempt struct {
	conn    net.Conn
	release func()
	e       *Endpoint
	err     error
}

// race is the tries for one client that are under way.
type race struct {
	news chan struct{} // a value: there are results

	mu      sync.Mutex // guards below
	results []attempt
	over    bool // nobody takes a connection any more
}

// report hands over what came of a try. A connection that nobody waits for any
// more is closed.
func (x *race) report(a attempt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		a.drop()
		return
	}
	x.results = append(x.results, a)
	netconn.Wake(x.news)
}

// take is one of the results; ok is false where there is none.
func (x *race) take() (a attempt, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.results) == 0 {
		return a, false
	}
	a, x.results = x.results[0], x.results[1:]
	return a, true
}

// end closes what comes too late. A nil race has nothing to end.
func (x *race) end() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	for _, a := range x.results {
		a.drop()
	}
}

// drop closes a connection that nobody needs.
func (a attempt) drop() {
	if a.err == nil {
		netconn.Cut(a.conn)
		a.release()
	}
}

// Open picks endpoints until one takes the connection.
func (r *Services) Open(ctx context.Context, s *Service, port string) (net.Conn, func(), *Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, local.OpenTimeout)
	defer cancel()
	p := Picker{Service: s, Distances: r.Opts.Distances}
	var x *race // nil as long as no other worker was asked
	defer func() { x.end() }()
	last := failure.ErrNoEndpoint
	for running := 0; ctx.Err() == nil; {
		e, more := p.Next()
		if e == nil && running == 0 {
			break
		}
		var tooLong <-chan time.Time
		var news <-chan struct{}
		switch {
		case e == nil: // only to wait for
		case e.Local:
			conn, release, err := r.Dial(ctx, e, port, forBytes)
			if err == nil {
				return conn, release, e, nil
			}
			last = err
			continue
		default:
			if x == nil {
				x = &race{news: make(chan struct{}, 1)}
			}
			// It goes on when the client has another, so that it is known what
			// becomes of it; the Router waits for its end.
			if !r.Opts.Spawn(func(ctx context.Context) {
				conn, release, err := r.Dial(ctx, e, port, forBytes)
				x.report(attempt{conn, release, e, err})
			}) {
				return nil, nil, nil, failure.ErrClosed
			}
			running++
			if more {
				t := time.NewTimer(e.HedgeAfter())
				defer t.Stop() // few rounds, and most have no timer
				tooLong = t.C
			}
		}
		if x != nil {
			news = x.news
		}
		select {
		case <-news:
			for a, ok := x.take(); ok; a, ok = x.take() {
				running--
				if a.err == nil {
					return a.conn, a.release, a.e, nil
				}
				last = a.err
			}
		case <-tooLong:
		case <-ctx.Done():
		}
	}
	return nil, nil, nil, fmt.Errorf("no endpoint of %s took the connection (%d tried): %w", s.Key, len(p.Tried), last)
}
