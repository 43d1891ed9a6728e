package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// Cordon records that somebody took a worker or a cluster out of use: it gets nothing new. With
// Drain, what runs there is also moved away.
type Cordon struct {
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Why   string    `json:"why,omitempty"`
	Drain bool      `json:"drain,omitempty"`
}

// Restart is a mark: what was started before it is to be started again. Marks of a service are
// ordered by N, which grows and is never 0.
type Restart struct {
	N   uint64    `json:"n"`
	By  string    `json:"by,omitempty"`
	At  time.Time `json:"at,omitzero"`
	Why string    `json:"why,omitempty"`
}

// ScalesItself returns the problem that a service cannot be scaled by hand: the requests
// decide.
func ScalesItself(app, service string, r api.Replicas) *Problem {
	return Problemf(409, "scales-itself", "change replicas in its descriptor and apply it; verge explain scale "+app+"."+service+" says what is decided now",
		"the number of its instances follows its requests", "%s.%s runs between %d and %d of them", app, service, r.Min, r.Max)
}
