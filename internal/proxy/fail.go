package proxy

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// fail answers a request with a problem: as RFC 9457 has it, and to a client of gRPC as
// that expects it.
func fail(w http.ResponseWriter, req *http.Request, status int, kind, remedy, detail string) {
	h := w.Header()
	if isGRPC(req.Header) {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", strconv.Itoa(grpcStatus(status)))
		h.Set("Grpc-Message", url.PathEscape(detail+". "+remedy))
		w.WriteHeader(http.StatusOK)
		return
	}
	problem(w, wire.Problemf(status, kind, remedy, titles[kind], "%s", detail))
}

// titles of problems by their kind.
var titles = map[string]string{
	"no-connection":   "this router has a fault",
	"no-service":      "no such service",
	"no-tunnel":       "no tunnels here",
	"no-trace":        "no traces here",
	"malformed":       "the request is malformed",
	"not-told":        "its instances are not known here now",
	"no-endpoint":     "no instance is ready",
	"upstream-failed": "no instance answered",
	"queue-full":      "too many requests wait",
	"too-late":        "no answer in time",
	"too-slow":        "it would take too long",
	"not-started":     "its instances do not start",
	"no-room":         "there is no room for an instance",
}

// grpcStatus for one of HTTP.
func grpcStatus(status int) int {
	switch status {
	case http.StatusGatewayTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusMethodNotAllowed, http.StatusNotFound:
		return 12 // UNIMPLEMENTED
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusInternalServerError, http.StatusBadRequest:
		return 13 // INTERNAL
	}
	return 14 // UNAVAILABLE
}

// errLate is that the deadline of a request has come before an answer.
var errLate = errors.New("no answer in time")

// answer answers a call that no instance answered, and returns the status.
func (c *call) answer(w http.ResponseWriter, req *http.Request, err error) int {
	s := c.service
	s.failures.Add(1)
	c.r.log.Debug("request failed", "service", s.key, "port", c.port, "why", err)
	const again = "try again in a moment"
	look := "; \"verge describe application/" + s.app + "\" says what is missing"
	var re *refusedError
	late := errors.Is(err, errLate) || errors.As(err, &re) && re.why == refusedLate
	switch {
	case c.hopeless > 0:
		s.count(&s.hopeless)
		retryAfter(w, c.hopeless)
		fail(w, req, http.StatusServiceUnavailable, "too-slow", "ask again later, as Retry-After says; raise slo, concurrency or replicas of the service if that happens often",
			"all instances of service "+s.key+" have so much to do that this request would not be answered within its objective")
		return http.StatusServiceUnavailable
	case late:
		s.count(&s.late)
		c.tooLate()
		fail(w, req, http.StatusGatewayTimeout, "too-late", "ask again with more time, or raise the timeout of the service",
			"service "+s.key+" gave no answer within "+time.Since(c.began).Round(time.Millisecond).String())
		return http.StatusGatewayTimeout
	case c.full:
		s.count(&s.overflow)
		retryAfter(w, s.waitEstimate())
		fail(w, req, http.StatusServiceUnavailable, "queue-full", again+"; raise queue_max, concurrency or replicas of the service if that happens often",
			"service "+s.key+" has as many requests as may wait")
		return http.StatusServiceUnavailable
	case !c.broken && c.unstarted != nil:
		s.count(&s.unstarted)
		retryAfter(w, c.unstarted.again)
		if c.unstarted.why == refusedRoom {
			fail(w, req, http.StatusServiceUnavailable, refusedRoom, "ask again later, as Retry-After says"+look,
				"service "+s.key+" sleeps, and where it does there is no room to start it: "+c.unstarted.Error())
		} else {
			fail(w, req, http.StatusServiceUnavailable, refusedStart, "ask again later, as Retry-After says"+look,
				"service "+s.key+" sleeps, and does not start: "+c.unstarted.Error())
		}
		return http.StatusServiceUnavailable
	case !c.broken:
		retryAfter(w, time.Second)
		fail(w, req, http.StatusServiceUnavailable, "no-endpoint", again+look, "service "+s.key+" has no instance that could be asked"+s.lacking())
		return http.StatusServiceUnavailable
	}
	fail(w, req, http.StatusBadGateway, "upstream-failed", "try again; \"verge logs\" of the instances says more",
		"service "+s.key+": its instances refused or broke the connection")
	return http.StatusBadGateway
}

// retryAfter says when to ask again: in whole seconds, 1 to 60.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", retrySeconds(d))
}

func retrySeconds(d time.Duration) string {
	return strconv.Itoa(int(min(max(math.Ceil(d.Seconds()), 1), 60)))
}

// saidAgain is what another router said in Retry-After; 0 where it is nothing or
// nonsense.
func saidAgain(v string) time.Duration {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// waitEstimate is how long a queue of the service takes to become empty, as far as that
// is known: the shortest of them.
func (s *service) waitEstimate() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := time.Duration(0)
	for _, e := range s.endpoints {
		if rps, ok := e.capacity.RPS(); ok && rps > 0 {
			if w := time.Duration(float64(e.report.Queue+1) / rps * float64(time.Second)); least == 0 || w < least {
				least = w
			}
		}
	}
	return least
}

// lacking is why there is none, as far as that is known, to be put behind that.
func (s *service) lacking() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.Lacks == "" || len(s.endpoints) > 0 {
		return ""
	}
	return ": " + s.from.Lacks
}

// count adds one to a counter of the service that is guarded by its lock.
func (s *service) count(n *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}
