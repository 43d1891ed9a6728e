package wire

import (
	"cmp"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
)

// Defaults of RequestRules.
const (
	DefaultConcurrency = 10
	DefaultQueueMax    = 100
	DefaultIdle        = time.Minute
)

// RequestRules are how a service that is routed by request is served. Routers too old for them
// route by connection.
type RequestRules struct {
	// Needed: routing by connection is not enough, because of one of these rules or because the
	// service scales by its requests.
	Needed bool `json:"needed,omitempty"`
	// Policy for requests to HTTP ports, if nobody has chosen one. The route's policy, which is
	// for connections, stays what it always was, and older routers use it. "" is that of the
	// route.
	Policy string `json:"policy,omitempty"`
	// Concurrency is how many requests an instance works on at a time: 0 is DefaultConcurrency,
	// below 0 no bound. RequestsOf sets the latter for a service without a rule that needs a
	// bound.
	Concurrency int `json:"concurrency,omitempty"`
	// QueueMax is how many more may wait in front of an instance: 0 is
	// DefaultQueueMax, below 0 none.
	QueueMax int `json:"queue_max,omitempty"`
	// Timeout until an answer begins, 0 for none.
	Timeout api.Duration `json:"timeout,omitempty"`
	// SLO is the objective for the duration of a request, 0 for none.
	SLO api.Duration `json:"slo,omitempty"`
	// Idle is how long after its last request an instance may sleep; 0 is DefaultIdle.
	Idle api.Duration `json:"idle,omitempty"`
	// Elastic: the number of instances follows the requests, which are counted where they
	// enter.
	Elastic bool `json:"elastic,omitempty"`
	// Counted: requests are counted where they enter even so, since instances are to be near
	// them or another revision is on trial. Answers are counted where the instances are.
	Counted bool `json:"counted,omitempty"`
}

// Count says whether requests are counted where they enter.
func (r *RequestRules) Count() bool { return r.Elastic || r.Counted }

// RequestsOf are the rules of a service.
func RequestsOf(s *api.Service) RequestRules {
	elastic := s.Replicas.Elastic()
	r := RequestRules{Needed: s.Runtime == api.Wasm || elastic, Elastic: elastic, Counted: s.Scheduler == api.NearestDemand}
	if s.Policy.IsZero() && s.ForRequests() {
		r.Policy = api.PolicyFastest
	}
	// A service that does not state its capacity has no bound: its owner would be surprised by
	// a 503 where a hundred long polls worked before.
	if !r.Needed && s.SLO == nil && s.QueueMax == nil && s.ForRequests() {
		r.Concurrency = orNone(0)
	}
	if s.SLO != nil {
		r.SLO, r.Needed = *s.SLO, true
	}
	if s.Idle != nil && s.Replicas.ToZero() {
		r.Idle = *s.Idle
	}
	if s.Concurrency != nil {
		r.Concurrency, r.Needed = orNone(*s.Concurrency), true
	}
	if s.QueueMax != nil {
		r.QueueMax, r.Needed = orNone(*s.QueueMax), true
	}
	if s.Timeout != nil {
		r.Timeout, r.Needed = *s.Timeout, true
	}
	return r
}

// orNone turns 0 into -1, so that it is not taken for unset.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Places is Concurrency with its default; 0 is no bound.
func (r RequestRules) Places() int { return orDefault(r.Concurrency, DefaultConcurrency) }

// MayWait is QueueMax with its default.
func (r RequestRules) MayWait() int { return orDefault(r.QueueMax, DefaultQueueMax) }

// IdleAfter is Idle with its default.
func (r RequestRules) IdleAfter() time.Duration { return cmp.Or(time.Duration(r.Idle), DefaultIdle) }

func orDefault(n, def int) int { return max(cmp.Or(n, def), 0) }

// requestPolicies choose for each request, by what they know of earlier ones.
var requestPolicies = []string{"fastest", "least-connections", "p2c", "least-response", "billiard"}

// ByRequest says whether a port of the service is routed by request, through the queues of the
// routers, rather than by connection. The gateway always looks at single requests.
func (r *Route) ByRequest(p *api.Port) bool {
	return p.ForRequests() && (r.Requests.Needed || r.Requests.Policy != "" || slices.Contains(requestPolicies, r.PolicyOf().Name))
}

// RequestPolicy returns the policy that distributes requests over the endpoints.
func (r *Route) RequestPolicy() api.Policy {
	if r.Requests.Policy != "" {
		return api.Policy{Name: r.Requests.Policy}.Filled()
	}
	return r.PolicyOf()
}

// ByRequestAt is ByRequest for the port of this name, "" for the first.
func (r *Route) ByRequestAt(port string) bool {
	for i := range r.Ports {
		if r.Ports[i].Name == port || i == 0 && port == "" {
			return r.ByRequest(&r.Ports[i])
		}
	}
	return false
}
