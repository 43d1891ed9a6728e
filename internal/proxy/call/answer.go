package call

import (
	"errors"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

// Answer answers a call that no instance answered, and returns the status.
func (c *Call) Answer(w http.ResponseWriter, req *http.Request, err error) int {
	s := c.service
	s.Failures.Add(1)
	c.r.Opts.Log.Debug("request failed", "service", s.Key, "port", c.Port, "why", err)
	const again = "try again in a moment"
	look := "; \"verge describe application/" + s.App + "\" says what is missing"
	var re *failure.RefusedError
	late := errors.Is(err, failure.ErrLate) || errors.As(err, &re) && re.Why == failure.RefusedLate
	switch {
	case c.hopeless > 0:
		s.Count(&s.Hopeless)
		httpmsg.SetRetryAfter(w, c.hopeless)
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "too-slow",
			"ask again later, as Retry-After says; raise slo, concurrency or replicas of the service if that "+
				"happens often",
			"all instances of service "+s.Key+
				" have so much to do that this request would not be answered within its objective")
		return http.StatusServiceUnavailable
	case late:
		s.Count(&s.Late)
		c.tooLate()
		httpmsg.Fail(w, req, http.StatusGatewayTimeout, "too-late",
			"ask again with more time, or raise the timeout of the service",
			"service "+s.Key+" gave no answer within "+time.Since(c.began).Round(time.Millisecond).String())
		return http.StatusGatewayTimeout
	case c.full:
		s.Count(&s.Overflow)
		httpmsg.SetRetryAfter(w, s.WaitEstimate())
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "queue-full",
			again+"; raise queue_max, concurrency or replicas of the service if that happens often",
			"service "+s.Key+" has as many requests as may wait")
		return http.StatusServiceUnavailable
	case !c.broken && c.unstarted != nil:
		s.Count(&s.Unstarted)
		httpmsg.SetRetryAfter(w, c.unstarted.Again)
		if c.unstarted.Why == failure.RefusedRoom {
			httpmsg.Fail(w, req, http.StatusServiceUnavailable, failure.RefusedRoom,
				"ask again later, as Retry-After says"+look,
				"service "+s.Key+" sleeps, and where it does there is no room to start it: "+c.unstarted.Error())
		} else {
			httpmsg.Fail(w, req, http.StatusServiceUnavailable, failure.RefusedStart,
				"ask again later, as Retry-After says"+look,
				"service "+s.Key+" sleeps, and does not start: "+c.unstarted.Error())
		}
		return http.StatusServiceUnavailable
	case !c.broken:
		httpmsg.SetRetryAfter(w, time.Second)
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "no-endpoint", again+look,
			"service "+s.Key+" has no instance that could be asked"+s.Lacking())
		return http.StatusServiceUnavailable
	}
	httpmsg.Fail(w, req, http.StatusBadGateway, "upstream-failed",
		"try again; \"verge logs\" of the instances says more",
		"service "+s.Key+": its instances refused or broke the connection")
	return http.StatusBadGateway
}
