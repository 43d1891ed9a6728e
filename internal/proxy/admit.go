package proxy

import (
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
)

// errHopeless is that no instance can answer within the objective.
var errHopeless = errors.New("no instance can answer within the objective")

// admit says whether the call goes to an instance at all: one that is too late already
// when it comes to its turn only makes others late. It is asked once, before the first
// endpoint is picked: what one was sent to and lost has waited, and is not sent away.
func (c *call) admit() bool {
	now := time.Now()
	// What is left is never 0, which would be no objective.
	left := max(c.slo-now.Sub(c.began), 1)
	c.slo = 0
	ok, retry := c.service.admits(c.r, left, now)
	if !ok {
		c.hopeless, c.last = retry, errHopeless
	}
	return ok
}

// admits says whether one of the endpoints that the next request may go to can answer
// it within left, and if not, when one could.
func (s *service) admits(r *Router, left time.Duration, now time.Time) (ok bool, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returnLocked(now)
	s.usable = s.view.Usable(s.usable[:0])
	places := s.from.Requests.Places()
	return scale.Admit(left, len(s.usable), func(i int) scale.Load {
		e := s.endpoints[s.usable[i]]
		l := scale.Load{Ahead: int(e.load.There(now)), Concurrency: places, Exec: e.load.Exec}
		if e.local {
			// Whoever asks it is in its queue.
			if x := r.spots.get(e.Instance); x != nil {
				st := x.queue.State()
				l.Ahead = max(e.load.InFlight, st.Waiting+st.Running)
			}
		}
		if rps, known := e.capacity.RPS(); known {
			l.RPS = rps
		}
		if e.load.Asleep {
			l.Start = e.load.StartUp
		}
		return l
	})
}
