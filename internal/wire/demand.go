package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

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
	// Answers are how the instances of the worker have answered, whoever asked them, of
	// services of which that is counted (RequestRules.Counted).
	Answers []InstanceAnswers `json:"answers,omitempty"`
}

// InstanceAnswers are requests over HTTP that an instance was given in the span of a Demand.
type InstanceAnswers struct {
	Instance InstanceID `json:"instance"`
	// Answered are all, Failed those of them to which it gave an answer that speaks of its
	// own failure (5xx but 501 and 505), or none at all.
	Answered uint64 `json:"n"`
	Failed   uint64 `json:"failed,omitempty"`
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

// ScaleDecision is what a cluster decided in one epoch about how many instances of a
// service run, for the requests that enter at its workers, and from what.
type ScaleDecision struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
	// Want is how many these requests ask for, From how many they asked for before.
	Want int    `json:"want"`
	From int    `json:"from"`
	Why  string `json:"why"`
	// Min and Max bound it.
	Min int `json:"min"`
	Max int `json:"max"`
	// Rate and Refused are requests per second, now; Predicted is the rate when an
	// instance that is started now would be ready.
	Rate      float64 `json:"rate"`
	Refused   float64 `json:"refused,omitempty"`
	Predicted float64 `json:"predicted"`
	// RPS is what one instance can do in requests per second, 0: not known.
	RPS float64 `json:"rps"`
	// Waiting are requests in queues.
	Waiting int `json:"waiting"`
	// Exec is how long an instance works on a request, StartUp how long it takes to
	// start, 0: not known. SLO is the objective, 0: none.
	Exec    api.Duration `json:"exec,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
	SLO     api.Duration `json:"slo,omitempty"`
	// ForRate and ForQueue are the instances for the rate and to empty the queues in
	// time.
	ForRate  int `json:"for_rate"`
	ForQueue int `json:"for_queue"`
	// Less is in how many epochs in a row fewer would have been enough.
	Less int `json:"less,omitempty"`
	// Replicas as the routers know them.
	Replicas []ReplicaDemand `json:"replicas,omitempty"`
}

// Entering is how much is asked for of a service at the workers of a cluster, in requests
// per second, smoothed and rounded to powers of the root of 2.
type Entering struct {
	App     string  `json:"app"`
	Service string  `json:"service"`
	Rate    float64 `json:"rate"`
}

// MaxEntering is how many services an Aggregate says that of.
const MaxEntering = 128

// Key of the service.
func (e *Entering) Key() string { return e.App + "." + e.Service }

// MaxShort is how many services an Aggregate tells of, those first that lack most, and
// MaxShortWords how long a reason is at most.
const (
	MaxShort      = 128
	MaxShortWords = 200
)

// ServiceShort is what a cluster lacks of one service whose requests decide how many
// of it run: a number and a reason, nothing of any single worker.
type ServiceShort struct {
	App     string `json:"app"`
	Service string `json:"service"`
	// Short are wanted for the requests that enter at the cluster, and have no place
	// in it. Unmet are the same of Extra.
	Short int `json:"short,omitempty"`
	Unmet int `json:"unmet,omitempty"`
	// Max and Extra are those of the share that it was counted with, 0: there is none.
	Max   int `json:"max,omitempty"`
	Extra int `json:"extra,omitempty"`
	// Full says why there is no room; "" where only the share allows no more.
	Full string `json:"full,omitempty"`
}

// Key of the service.
func (s *ServiceShort) Key() string { return s.App + "." + s.Service }

// Give is how many instances run in one cluster for requests that enter in another.
type Give struct {
	From string `json:"from"` // where the requests enter
	To   string `json:"to"`   // where the instances run
	N    int    `json:"n"`
	Why  string `json:"why"` // why not where the requests enter
}

// AskScale is answered by a ScaleReport of the service that Ask.Instance names
// ("<application>.<service>").
const AskScale = "scale"

// ScaleReport is how many instances of a service run in a cluster, and why.
type ScaleReport struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Min and Max are what the root has given the cluster, Extra those it is to run for
	// requests that enter elsewhere. Max 0: none of it is to run here.
	Min   int `json:"min"`
	Max   int `json:"max"`
	Extra int `json:"extra,omitempty"`
	// Placed are there, Awake those of them that run.
	Placed int `json:"placed"`
	Awake  int `json:"awake"`
	// Short are wanted and have no room here, or may not be here: others run them.
	Short int `json:"short,omitempty"`
	// Full says why there is no room for them; "" where the share allows no more.
	Full string `json:"full,omitempty"`
	// Gives are what the root has given to other clusters for requests that enter
	// here, and to this one for those of others. Only the root tells. Unserved says why
	// those that are Short and not among them run nowhere.
	Gives    []Give `json:"gives,omitempty"`
	Unserved string `json:"unserved,omitempty"`
	// Fixed: the requests do not decide.
	Fixed bool `json:"fixed,omitempty"`
	// Now is the newest decision, nil where nobody has asked for the service lately, or
	// (Asked) the first decision about those who have is still to come; Last the newest that
	// changed something.
	Now  *ScaleDecision `json:"now,omitempty"`
	Last *ScaleDecision `json:"last,omitempty"`
	// Asked says that there are requests of which nothing has been decided yet.
	Asked bool `json:"asked,omitempty"`
	// Trouble is what keeps an instance from running that is to run or to start with a
	// request, and which; "" for none.
	Trouble string `json:"trouble,omitempty"`
	// Problem says why the cluster could not be asked; the rest is empty then.
	Problem string `json:"problem,omitempty"`
}
