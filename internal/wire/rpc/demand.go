package rpc

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// ScaleDecision is what a cluster decided in one epoch about the number of instances of a
// service, for the requests that enter at its workers, and why.
type ScaleDecision struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`
	// Want is how many instances these requests need, From how many they needed before.
	Want int    `json:"want"`
	From int    `json:"from"`
	Why  string `json:"why"`
	// Min and Max bound it.
	Min int `json:"min"`
	Max int `json:"max"`
	// Rate and Refused are requests per second, now; Predicted is the rate when an instance
	// started now would be ready.
	Rate      float64 `json:"rate"`
	Refused   float64 `json:"refused,omitempty"`
	Predicted float64 `json:"predicted"`
	// RPS is the capacity of one instance in requests per second, 0 if not known.
	RPS float64 `json:"rps"`
	// Waiting are requests in queues.
	Waiting int `json:"waiting"`
	// Exec is how long an instance works on a request, StartUp how long it takes to start, 0 if
	// not known. SLO is the objective, 0 for none.
	Exec    api.Duration `json:"exec,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
	SLO     api.Duration `json:"slo,omitempty"`
	// ForRate and ForQueue are the instances for the rate, and to empty the queues in time.
	ForRate  int `json:"for_rate"`
	ForQueue int `json:"for_queue"`
	// Less is how many epochs in a row fewer would have been enough.
	Less int `json:"less,omitempty"`
	// Replicas as the routers know them.
	Replicas []wire.ReplicaDemand `json:"replicas,omitempty"`
}

// Give is how many instances run in one cluster for requests that enter in another.
type Give struct {
	From string `json:"from"` // where the requests enter
	To   string `json:"to"`   // where the instances run
	N    int    `json:"n"`
	Why  string `json:"why"` // why not where the requests enter
	// Expected: Why is an expectation, since the cluster has not tried yet.
	Expected bool `json:"expected,omitempty"`
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
	// Min and Max are what the root gave the cluster, Extra those it is to run for requests
	// that enter elsewhere. Max 0: none is to run here.
	Min   int `json:"min"`
	Max   int `json:"max"`
	Extra int `json:"extra,omitempty"`
	// Placed counts instances in the cluster, Awake those of them that run.
	Placed int `json:"placed"`
	Awake  int `json:"awake"`
	// Short counts instances that are wanted and have no room here, or may not run here: others
	// run them.
	Short int `json:"short,omitempty"`
	// Full says why there is no room for them; "" if the share allows no more.
	Full string `json:"full,omitempty"`
	// Gives are what the root gave to other clusters for requests that enter here, and to this
	// one for those of others. Only the root reports them. Unserved says why those of Short
	// that are not among Gives run nowhere.
	Gives    []Give `json:"gives,omitempty"`
	Unserved string `json:"unserved,omitempty"`
	// Fixed: the requests do not decide the number.
	Fixed bool `json:"fixed,omitempty"`
	// Now is the newest decision, nil if there were no requests lately or (Asked) the first
	// decision about them is still to come. Last is the newest that changed something.
	Now  *ScaleDecision `json:"now,omitempty"`
	Last *ScaleDecision `json:"last,omitempty"`
	// Asked: there are requests about which nothing has been decided yet.
	Asked bool `json:"asked,omitempty"`
	// Trouble is what keeps an instance from running or from starting with a request, and which
	// instance; "" for none.
	Trouble string `json:"trouble,omitempty"`
	// Problem says why the cluster could not be asked; the rest is empty then.
	Problem string `json:"problem,omitempty"`
}
