package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

// A call is one request on its way to an instance, whatever carries it. It decides
// where the request goes, whether it may be asked again elsewhere, and what is learnt
// from the answer; a driver does the talking. Two drivers exist: forward (net/http, all
// of HTTP) and the fast path of HTTP/1.1. Both do, in this order:
//
//	c.begin(ctx, …)                     the service is known here, the deadline is set
//	for {
//	    e, more := c.next()             an endpoint; nil: c.problem() says what to answer
//	    e.local:  r.enter(…) takes a place in the queue of the instance (place.go)
//	    else:     a stream to its worker (transport.go), whose router does that
//	    no head came:   if c.failed(err, …) { continue }
//	    a head came:    if c.answered(…) { continue }
//	    break
//	}
//	c.end()                             the answer has ended, or there was none
//
// A call belongs to one goroutine.
type call struct {
	r       *services
	service *service
	port    string
	began   time.Time
	// deadline for the head of the answer; zero: none. It is that of the whole answer
	// where whole is true: the client said so.
	deadline time.Time
	whole    bool
	// repeat: the request may be asked again after it was sent (its method is
	// idempotent, and its body is there again or was none).
	repeat bool
	// body is how many bytes the request has, and back its answer; below 0: it is not known.
	body, back int64
	// waited is the part of the time until the head of the answer in which who answers
	// waited for the body of the request.
	waited time.Duration
	// trying: its body shows what nobody knows of the line to the endpoint.
	trying bool

	picker   picker
	asked    time.Time // when the endpoint was chosen
	endpoint *endpoint // that was asked last; its load counts this call while held
	held     bool
	retried  bool
	broken   bool          // something is, or the routes are only behind
	taken    bool          // a connection broke that may have taken the request
	caughtUp time.Duration // the most that was waited for newer routes
	full     bool          // a queue was
	last     error
	// unstarted is why an instance that sleeps did not start for it, nil if none was
	// asked in vain.
	unstarted *failure.RefusedError

	// slo is the objective of the service until the call was admitted, then 0; hopeless
	// is when to ask again if it was not.
	slo, hopeless time.Duration
}

// maxFull is how many full queues a request is taken to.
const maxFull = 3

// begin starts a call for a port of a service. The deadline is the earlier one of the
// service's timeout and of what the client said (zero: nothing).
func (c *call) begin(ctx context.Context, r *services, s *service, port string, client time.Time) error {
	now := time.Now()
	*c = call{r: r, service: s, port: port, began: now, last: failure.ErrNoEndpoint, body: -1, back: -1}
	c.picker = picker{service: s, distances: r.opts.Distances, request: true}
	s.requests.Add(1)
	var timeout time.Duration
	if timeout, c.slo = s.request(r.asked); timeout > 0 {
		c.deadline = now.Add(timeout)
	}
	if !client.IsZero() && (c.deadline.IsZero() || client.Before(c.deadline)) {
		c.deadline, c.whole = client, true
	}
	return r.arrive(ctx, s, now)
}

// next is the endpoint to ask; nil where there is none left. more: there are others.
// Before the first one the request is admitted, or not.
func (c *call) next() (e *endpoint, more bool) {
	c.release()
	c.waited, c.picker.body = 0, c.body
	if c.slo > 0 && !c.admit() {
		return nil, false
	}
	if time.Since(c.began) > openTimeout && len(c.picker.tried) > 0 {
		return nil, false
	}
	for {
		if e, more = c.picker.next(); e != nil {
			c.endpoint, c.asked = e, time.Now()
			c.held = true // picked for requests: its load counts it already
			c.trying = c.r.tries(e, c.body, c.picker.back)
			return e, more
		}
		if !c.catchUp() {
			return nil, false
		}
	}
}

// catchUpStep is how long a call waits for newer routes at a time, up to catchUpFor.
const catchUpStep = 50 * time.Millisecond

// catchUp waits a moment where the routes are behind: every endpoint was asked, and each
// is draining, not ready yet or gone, so that its successor is about to be in the
// routes; or there have been none for less than catchUpFor. True: all may be asked again. Where one refused the connection it may have died
// just now, and the news that another one is back be on its way; but who refuses for longer
// has to be answered soon, so that counts as a request that is sent once more.
func (c *call) catchUp() bool {
	if len(c.picker.tried) == 0 && !c.service.justLost(time.Now()) || c.taken || c.full || c.unstarted != nil || c.hopeless > 0 || c.caughtUp >= catchUpFor {
		return false
	}
	if c.broken && (time.Since(c.began) >= catchUpFor || c.caughtUp == 0 && !c.service.mayRetry()) {
		return false
	}
	if left, bounded := c.left(); bounded && left < catchUpStep {
		return false
	}
	c.caughtUp += catchUpStep
	timer := time.NewTimer(catchUpStep)
	defer timer.Stop()
	select {
	case <-c.service.news():
	case <-timer.C:
	}
	c.picker.tried = c.picker.tried[:0]
	return true
}

// tooLate notes that the endpoint that was asked last gave no answer within the time
// that the service allows: that is a failed answer, unless it was the client who had
// no patience.
func (c *call) tooLate() {
	if c.endpoint != nil && !c.whole {
		c.service.answeredBy(c.endpoint, time.Now(), true, &orca.Report{})
	}
}

// release ends the count of the call in the load of its endpoint.
func (c *call) release() {
	if c.held {
		c.held = false
		c.service.ended(c.endpoint)
	}
	c.endTrial()
}

// endTrial: the body shows nothing more of the line.
func (c *call) endTrial() {
	if c.trying {
		c.trying = false
		c.r.tried(c.endpoint)
	}
}

// failed says whether the request is to be asked elsewhere after a try that brought no
// head of an answer. Unread: nothing of its body was taken, or it can be read from its
// begin again.
func (c *call) failed(err error, unread bool) bool {
	e := c.endpoint
	c.last = err
	var oe *failure.OpenError
	if errors.As(err, &oe) {
		c.broken = c.broken || !oe.NotNow
		return unread // no connection took it
	}
	var re *failure.RefusedError
	if errors.As(err, &re) {
		return c.refused(re, unread)
	}
	c.broken, c.taken = true, true
	e.failures.Add(1)
	var ue *failure.UnsentError
	if errors.As(err, &ue) && unread {
		c.r.eject(e, "a kept connection had ended")
		return true
	}
	if failure.BrokenConn(err) {
		c.r.eject(e, "connection broke before an answer")
	}
	return unread && c.again()
}

// refused: its worker let nothing of the request through to the instance.
func (c *call) refused(re *failure.RefusedError, unread bool) bool {
	switch re.Why {
	case failure.RefusedFull:
		c.full = true
		return unread && len(c.picker.tried) < maxFull
	case failure.RefusedLate:
		return false
	case failure.RefusedStart, failure.RefusedRoom:
		// Nothing of it is news to who routes: it starts with a request, and this one is
		// asked elsewhere if there is an elsewhere.
		if c.unstarted == nil || re.Again > 0 && (c.unstarted.Again == 0 || re.Again < c.unstarted.Again) {
			c.unstarted = re
		}
	}
	// Not here, not ready or draining: the route is behind.
	c.r.eject(c.endpoint, re.Error())
	return unread
}

// again says whether what was sent may be sent once more.
func (c *call) again() bool {
	if !c.repeat || c.retried || !c.service.mayRetry() {
		return false
	}
	c.retried = true
	return true
}

// answered notes the head of an answer and the load report in it, and says whether the
// request is better asked elsewhere instead.
func (c *call) answered(status int, report *orca.Report, unread bool) (again bool) {
	e, now := c.endpoint, time.Now()
	failed := httpmsg.IsFailure(status)
	if out := c.service.answeredBy(e, now, failed, report); out {
		c.r.opts.Log.Info("endpoint out of rotation", "service", c.service.key, "instance", e.Instance, "worker", e.Worker,
			"why", fmt.Sprintf("%d answers in a row were errors, the last %d", route.OutlierAfter, status))
	}
	if !failed {
		c.service.took(e, c.picker.sent, now.Sub(c.asked)-c.waited)
	}
	if httpmsg.Retriable(status) && unread && c.again() {
		e.requests.Add(1)
		return true
	}
	e.requests.Add(1)
	e.active.Add(1)
	e.reached.Store(counters.Stamp(now))
	return false
}

// end ends a call; answered says whether a head of an answer was passed on, with its
// status (0: none, and the client had left).
func (c *call) end(method string, status int, answered bool) {
	c.release()
	c.service.over(!answered && status == http.StatusServiceUnavailable, c.body, c.back)
	if answered {
		c.endpoint.active.Add(-1)
		c.endpoint.settle()
	}
	if status != http.StatusSwitchingProtocols { // that is a connection from there on
		if status == 0 {
			status = counters.StatusClosed
		}
		c.service.answers.Observe(method, status, time.Since(c.began))
	}
}

// left is the time until the deadline; false where there is none.
func (c *call) left() (time.Duration, bool) {
	if c.deadline.IsZero() {
		return 0, false
	}
	return time.Until(c.deadline), true
}

// reported learns from the load report in the trailers of an answer.
func (c *call) reported(report *orca.Report) { c.service.reported(c.endpoint, report) }
