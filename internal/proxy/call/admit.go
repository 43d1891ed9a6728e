package call

import (
	"errors"
	"time"
)

// errHopeless is that no instance can answer within the objective.
var errHopeless = errors.New("no instance can answer within the objective")

// admit says whether the call goes to an instance at all: one that is too late already
// when it comes to its turn only makes others late. It is asked once, before the first
// endpoint is picked: what one was sent to and lost has waited, and is not sent away.
func (c *Call) admit() bool {
	now := time.Now()
	// What is left is never 0, which would be no objective.
	left := max(c.slo-now.Sub(c.began), 1)
	c.slo = 0
	ok, retry := c.service.Admits(c.r, left, now)
	if !ok {
		c.hopeless, c.Last = retry, errHopeless
	}
	return ok
}
