package call

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/router"
)

// Call is one request on its way to an instance, whatever carries it. It decides
// where the request goes, whether it may be asked again elsewhere, and what is learnt
// from the answer; a driver does the talking. Two drivers exist: forward (net/http, all
// of HTTP) and the fast path of HTTP/1.1. Both do, in this order:
//
//	c.Begin(ctx, …)                     the service is known here, the deadline is set
//	for {
//	    e, more := c.Next()             an endpoint; nil: c.Answer says what to answer
//	    e.Local:  Local.Enter(…) takes a place in the queue of the instance (package local)
//	    else:     a stream to its worker (package data), whose router does that
//	    no head came:   if c.Failed(err, …) { continue }
//	    a head came:    if c.Answered(…) { continue }
//	    break
//	}
//	c.End()                             the answer has ended, or there was none
//
// A call belongs to one goroutine.
type Call struct {
	r       *router.Services
	service *router.Service
	Port    string
	began   time.Time
	// Deadline for the head of the answer; zero: none. It is that of the whole answer
	// where whole is true: the client said so.
	Deadline time.Time
	Whole    bool
	// Repeat: the request may be asked again after it was sent (its method is
	// idempotent, and its body is there again or was none).
	Repeat bool
	// Body is how many bytes the request has, and back its answer; below 0: it is not known.
	Body, Back int64
	// Waited is the part of the time until the head of the answer in which who answers
	// waited for the body of the request.
	Waited time.Duration
	// trying: its body shows what nobody knows of the line to the endpoint.
	trying bool

	Picker   router.Picker
	asked    time.Time        // when the endpoint was chosen
	endpoint *router.Endpoint // that was asked last; its load counts this call while held
	held     bool
	heard    bool // an answer of the endpoint has begun
	retried  bool
	broken   bool          // something is, or the routes are only behind
	taken    bool          // a connection broke that may have taken the request
	caughtUp time.Duration // the most that was waited for newer routes
	full     bool          // a queue was
	Last     error
	// unstarted is why an instance that sleeps did not start for it, nil if none was
	// asked in vain.
	unstarted *failure.RefusedError

	// slo is the objective of the service until the call was admitted, then 0; hopeless
	// is when to ask again if it was not.
	slo, hopeless time.Duration
}

// maxFull is how many full queues a request is taken to.
const maxFull = 3

// Begin starts a call for a port of a service. The deadline is the earlier one of the
// service's timeout and of what the client said (zero: nothing).
func (c *Call) Begin(ctx context.Context, r *router.Services, s *router.Service, port string, client time.Time) error {
	now := time.Now()
	*c = Call{r: r, service: s, Port: port, began: now, Last: failure.ErrNoEndpoint, Body: -1, Back: -1}
	c.Picker = router.Picker{Service: s, Distances: r.Opts.Distances, Request: true}
	s.Requests.Add(1)
	var timeout time.Duration
	if timeout, c.slo = s.Request(r.DemandNews); timeout > 0 {
		c.Deadline = now.Add(timeout)
	}
	if !client.IsZero() && (c.Deadline.IsZero() || client.Before(c.Deadline)) {
		c.Deadline, c.Whole = client, true
	}
	return r.Arrive(ctx, s, now)
}

// Next is the endpoint to try; nil if none is left. more: there are others. Before the first one
// the request is admitted, or refused.
func (c *Call) Next() (e *router.Endpoint, more bool) {
	c.Release()
	c.Waited, c.Picker.Body = 0, c.Body
	if c.slo > 0 && !c.admit() {
		return nil, false
	}
	if len(c.Picker.Tried) > 0 && time.Since(c.began) > local.OpenTimeout {
		return nil, false
	}
	for {
		if e, more = c.Picker.Next(); e != nil {
			c.endpoint, c.asked = e, c.Picker.At
			c.held = true // picked for requests: its load counts it already
			c.trying = c.r.Tries(e, c.Body, c.Picker.Back)
			return e, more
		}
		if !c.catchUp() {
			return nil, false
		}
	}
}

// catchUpStep is how long a call waits for newer routes at a time, up to router.CatchUpFor.
const catchUpStep = 50 * time.Millisecond

// catchUp waits a moment where the routes are behind: every endpoint was asked, and each
// is draining, not ready yet or gone, so that its successor is about to be in the
// routes; or there have been none for less than router.CatchUpFor. True: all may be asked again.
// Where one refused the connection it may have died just now, and the news that another one is back
// be on its way; but who refuses for longer has to be answered soon, so that counts as a request
// that is sent once more.
func (c *Call) catchUp() bool {
	if len(c.Picker.Tried) == 0 && !c.service.JustLost(time.Now()) || c.taken || c.full || c.unstarted != nil ||
		c.hopeless > 0 || c.caughtUp >= router.CatchUpFor {
		return false
	}
	if c.broken && (time.Since(c.began) >= router.CatchUpFor || c.caughtUp == 0 && !c.service.MayRetry()) {
		return false
	}
	if left, bounded := c.Left(); bounded && left < catchUpStep {
		return false
	}
	c.caughtUp += catchUpStep
	timer := time.NewTimer(catchUpStep)
	defer timer.Stop()
	select {
	case <-c.service.News():
	case <-timer.C:
	}
	c.Picker.Tried = c.Picker.Tried[:0]
	return true
}

// tooLate notes that the endpoint that was asked last gave no answer within the time
// that the service allows: that is a failed answer, unless the client set
// the deadline.
func (c *Call) tooLate() {
	if c.endpoint != nil && !c.Whole {
		c.service.AnsweredBy(c.endpoint, time.Now(), true, &orca.Report{})
		c.heard = true
	}
}

// Release ends the count of the call in the load of its endpoint.
func (c *Call) Release() {
	if c.held {
		c.held = false
		c.service.Ended(c.endpoint, c.heard)
		c.heard = false
	}
	c.endTrial()
}

// endTrial: the body shows nothing more of the line.
func (c *Call) endTrial() {
	if c.trying {
		c.trying = false
		c.r.Tried(c.endpoint)
	}
}

// Failed says whether the request is to be asked elsewhere after a try that brought no
// head of an answer. Unread: nothing of its body was taken, or it can be read from its
// begin again.
func (c *Call) Failed(err error, unread bool) bool {
	e := c.endpoint
	c.Last = err
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
	e.Failures.Add(1)
	var ue *failure.UnsentError
	if errors.As(err, &ue) && unread {
		c.r.Eject(e, "a kept connection had ended")
		return true
	}
	if failure.BrokenConn(err) {
		c.r.Eject(e, "connection broke before an answer")
	}
	return unread && c.again()
}

// refused: its worker let nothing of the request through to the instance.
func (c *Call) refused(re *failure.RefusedError, unread bool) bool {
	switch re.Why {
	case failure.RefusedFull:
		c.full = true
		return unread && len(c.Picker.Tried) < maxFull
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
	c.r.Eject(c.endpoint, re.Error())
	return unread
}

// again says whether what was sent may be sent once more.
func (c *Call) again() bool {
	if !c.Repeat || c.retried || !c.service.MayRetry() {
		return false
	}
	c.retried = true
	return true
}

// Answered notes the head of an answer and the load report in it, and says whether the
// request is better asked elsewhere instead.
func (c *Call) Answered(status int, report *orca.Report, unread bool) (again bool) {
	e, now := c.endpoint, time.Now()
	c.heard = true
	failed := httpmsg.IsFailure(status)
	if out := c.service.AnsweredBy(e, now, failed, report); out {
		c.r.Opts.Log.Info("endpoint out of rotation", "service", c.service.Key, "instance", e.Instance, "worker",
			e.Worker,
			"why", fmt.Sprintf("%d answers in a row were errors, the last %d", eject.OutlierAfter, status))
	}
	if !failed {
		c.service.Took(e, c.Picker.Sent, now, now.Sub(c.asked)-c.Waited)
	}
	if httpmsg.Retriable(status) && unread && c.again() {
		e.Requests.Add(1)
		return true
	}
	e.Requests.Add(1)
	e.Active.Add(1)
	e.Reached.Store(counters.Stamp(now))
	return false
}

// End ends a call; answered says whether a head of an answer was passed on, with its
// status (0: none, and the client had left).
func (c *Call) End(method string, status int, answered bool) {
	c.Release()
	c.service.Over(!answered && status == http.StatusServiceUnavailable, c.Body, c.Back)
	if answered {
		c.endpoint.Active.Add(-1)
		c.endpoint.Settle()
	}
	if status != http.StatusSwitchingProtocols { // that is a connection from there on
		if status == 0 {
			status = counters.StatusClosed
		}
		c.service.Answers.Observe(method, status, time.Since(c.began))
	}
}

// Left is the time until the deadline; false where there is none.
func (c *Call) Left() (time.Duration, bool) {
	if c.Deadline.IsZero() {
		return 0, false
	}
	return time.Until(c.Deadline), true
}

// Reported learns from the load report in the trailers of an answer.
func (c *Call) Reported(report *orca.Report) { c.service.Reported(c.endpoint, report) }
