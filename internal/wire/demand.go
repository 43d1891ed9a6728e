package wire

import "github.com/verge-edge/verge/api"

// Bounds of a Demand: what is beyond them is left out, the least asked for first.
const (
	MaxDemandServices = 1000
	MaxDemandReplicas = 4096
)

// Demand is what was asked for at one worker in one epoch: the requests that entered
// there, wherever they were answered. It goes up as a plain message, of an epoch in
// which there was some, and is written nowhere.
type Demand struct {
	V int `json:"v"`
	// Span is the time in which it was counted.
	Span     api.Duration    `json:"span"`
	Services []ServiceDemand `json:"services"`
}

// ServiceDemand is the demand for one service.
type ServiceDemand struct {
	App     string `json:"app"`
	Service string `json:"service"`
	// Requests that came, those of them that were refused for want of a replica or of
	// room in a queue among them.
	Requests uint64 `json:"n"`
	Refused  uint64 `json:"refused,omitempty"`
	// Waiting are those that are in no replica now, InFlight those that are.
	Waiting  int `json:"waiting,omitempty"`
	InFlight int `json:"in_flight,omitempty"`
	// Replicas are those that this worker knows something of.
	Replicas []ReplicaDemand `json:"replicas,omitempty"`
}

// Key of the service.
func (d *ServiceDemand) Key() string { return d.App + "." + d.Service }

// ReplicaDemand is what a worker's router knows of one replica.
type ReplicaDemand struct {
	Instance InstanceID `json:"instance"`
	// RPS is what it can do, in requests per second, 0 where it is not known; Exec how
	// long it works on one.
	RPS  float64      `json:"rps,omitempty"`
	Exec api.Duration `json:"exec,omitempty"`
	// Waiting is the length of its queue.
	Waiting int `json:"waiting,omitempty"`
}
