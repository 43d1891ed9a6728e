package wire

import (
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

// RequestRules are how the requests of a service are served where it is routed by
// request. Who is too old for them routes by connection.
type RequestRules struct {
	// Needed: something of the service cannot be had by connection: one of these
	// rules, or that it scales by its requests.
	Needed bool `json:"needed,omitempty"`
	// Policy by which the requests of ports for HTTP are given, where nobody has chosen
	// one: that of the route, by which connections are, is then what it always was, and
	// who is too old for this goes by it. "" is that of the route.
	Policy string `json:"policy,omitempty"`
	// Concurrency is how many requests an instance works on at a time: 0 is
	// DefaultConcurrency, below 0 as many as come. RequestsOf says the latter for a
	// service that has no rule that needs a bound.
	Concurrency int `json:"concurrency,omitempty"`
	// QueueMax is how many more may wait in front of an instance: 0 is
	// DefaultQueueMax, below 0 none.
	QueueMax int `json:"queue_max,omitempty"`
	// Timeout until an answer begins; 0 is none.
	Timeout api.Duration `json:"timeout,omitempty"`
	// SLO is the objective for the time of a request; 0 is none.
	SLO api.Duration `json:"slo,omitempty"`
	// Idle is how long after its last request an instance may sleep; 0 is DefaultIdle.
	Idle api.Duration `json:"idle,omitempty"`
	// Elastic: how many instances run follows from the requests, which are counted
	// where they enter.
	Elastic bool `json:"elastic,omitempty"`
	// Counted: they are counted where they enter all the same, since instances are to be
	// near them, or another revision of them is to show how it does. How instances answer
	// is counted where they are.
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
	// A service that says nothing of how much it takes has no bound: its owner would be
	// surprised by a 503 where a hundred long polls went well.
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

// orNone writes 0 as something else, which is not taken for silence.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Places is Concurrency with its default; 0 is as many as come.
func (r RequestRules) Places() int { return orDefault(r.Concurrency, DefaultConcurrency) }

// MayWait is QueueMax with its default.
func (r RequestRules) MayWait() int { return orDefault(r.QueueMax, DefaultQueueMax) }

// IdleAfter is Idle with its default.
func (r RequestRules) IdleAfter() time.Duration {
	if r.Idle == 0 {
		return DefaultIdle
	}
	return time.Duration(r.Idle)
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return max(n, 0)
}

// requestPolicies choose anew for each request, by what they know of those before.
var requestPolicies = []string{"fastest", "least-connections", "p2c", "least-response", "billiard"}

// ByRequest says whether a port of the service is routed by request, through the
// queues of the routers, and not by connection. The gateway looks at the requests of
// all its services anyway.
func (r *Route) ByRequest(p *api.Port) bool {
	return SpeaksHTTP(p) && (r.Requests.Needed || r.Requests.Policy != "" || slices.Contains(requestPolicies, r.PolicyOf().Name))
}

// RequestPolicy is the policy by which requests are given to the endpoints.
func (r *Route) RequestPolicy() api.Policy {
	if r.Requests.Policy != "" {
		return api.Policy{Name: r.Requests.Policy}.Filled()
	}
	return r.PolicyOf()
}

// ByRequestAt is ByRequest of the port with a name, "" the first.
func (r *Route) ByRequestAt(port string) bool {
	for i := range r.Ports {
		if r.Ports[i].Name == port || i == 0 && port == "" {
			return r.ByRequest(&r.Ports[i])
		}
	}
	return false
}

// SpeaksHTTP says whether a port is for HTTP in one of its forms.
func SpeaksHTTP(p *api.Port) bool { return p.ForRequests() }
