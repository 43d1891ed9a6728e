package wire

import "github.com/verge-edge/verge/api"

// Bounds of a Demand. What exceeds them is left out, the least requested first.
const (
	MaxDemandServices = 1000
	MaxDemandReplicas = 4096
)

// Demand describes the requests that entered at one worker in one epoch, wherever they were
// answered. It goes up as a plain message if there were any, and is never stored.
type Demand struct {
	V int `json:"v"`
	// Span is the time in which it was counted.
	Span     api.Duration    `json:"span"`
	Services []ServiceDemand `json:"services"`
	// Answers are how the worker's instances answered, whoever asked. Only services with
	// RequestRules.Counted have them.
	Answers []InstanceAnswers `json:"answers,omitempty"`
}

// InstanceAnswers are requests over HTTP that an instance was given in the span of a Demand.
type InstanceAnswers struct {
	Instance InstanceID `json:"instance"`
	// Answered counts all of them. Failed counts those with an answer that reports its own
	// failure (5xx but 501 and 505), or with none at all.
	Answered uint64 `json:"n"`
	Failed   uint64 `json:"failed,omitempty"`
}

// ServiceDemand is the demand for one service.
type ServiceDemand struct {
	App     string `json:"app"`
	Service string `json:"service"`
	// Requests that came, including those Refused for lack of a replica or of room in a queue.
	Requests uint64 `json:"n"`
	Refused  uint64 `json:"refused,omitempty"`
	// Waiting counts requests that are in no replica now, InFlight those that are in one.
	Waiting  int `json:"waiting,omitempty"`
	InFlight int `json:"in_flight,omitempty"`
	// Replicas that this worker knows something about.
	Replicas []ReplicaDemand `json:"replicas,omitempty"`
}

// Key of the service.
func (d *ServiceDemand) Key() string { return d.App + "." + d.Service }

// ReplicaDemand is what a worker's router knows of one replica.
type ReplicaDemand struct {
	Instance InstanceID `json:"instance"`
	// RPS is its capacity in requests per second, 0 if not known. Exec is how long it works on
	// a request.
	RPS  float64      `json:"rps,omitempty"`
	Exec api.Duration `json:"exec,omitempty"`
	// Waiting is the length of its queue.
	Waiting int `json:"waiting,omitempty"`
}

// Entering is the rate of requests for a service that enter at the workers of a cluster, in
// requests per second, smoothed and rounded to powers of √2.
type Entering struct {
	App     string  `json:"app"`
	Service string  `json:"service"`
	Rate    float64 `json:"rate"`
}

// MaxEntering bounds Aggregate.Entering.
const MaxEntering = 128

// Key of the service.
func (e *Entering) Key() string { return e.App + "." + e.Service }

// MaxShort bounds Aggregate.Short: the services that lack most come first. MaxShortWords is the
// maximum length of a reason.
const (
	MaxShort      = 128
	MaxShortWords = 200
)

// ServiceShort is how many instances a cluster lacks of a service that is scaled by its
// requests, and why. It says nothing about single workers.
type ServiceShort struct {
	App     string `json:"app"`
	Service string `json:"service"`
	// Short counts instances that are wanted for requests that enter at the cluster, and have
	// no place in it. Unmet is the same for Extra.
	Short int `json:"short,omitempty"`
	Unmet int `json:"unmet,omitempty"`
	// Max and Extra are those of the share that was in force, 0 for none.
	Max   int `json:"max,omitempty"`
	Extra int `json:"extra,omitempty"`
	// Full says why there is no room; "" if only the share is the limit.
	Full string `json:"full,omitempty"`
}

// Key of the service.
func (s *ServiceShort) Key() string { return s.App + "." + s.Service }
