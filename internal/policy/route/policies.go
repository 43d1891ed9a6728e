package route

import (
	"fmt"

	"github.com/verge-edge/verge/api"
)

// New returns the policy that p describes. The seed makes routers differ; with the
// same seed and the same calls the answers are the same.
func New(p api.Policy, seed uint64) (Policy, error) {
	p = p.Filled()
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	switch p.Name {
	case api.PolicyRoundRobin:
		return &RoundRobin{}, nil
	case api.PolicyBilliard:
		return &billiard{}, nil
	case api.PolicyLeastConnections:
		return &leastConnections{}, nil
	case api.PolicyTwoChoices:
		return &twoChoices{next: mix(seed)}, nil
	case api.PolicyLeastResponse:
		return &leastResponse{}, nil
	case api.PolicyFastest:
		return &fastest{}, nil
	}
	s := &spread{rule: ruleOf(p), next: mix(seed), even: p.Name != api.PolicyRandom}
	if p.Name == api.PolicyInstance {
		s.only = func(e *Endpoint) bool { return e.Ordinal == p.Ordinal }
	}
	return s, nil
}

// NewForConnections is New for connections, whose number and cost are not visible: policies by load
// use their shares. Round robin stays exact.
func NewForConnections(p api.Policy, seed uint64) (Policy, error) {
	policy, err := New(p, seed)
	switch policy.(type) {
	case *leastConnections, *twoChoices:
		return &spread{rule: equal, next: mix(seed), even: true}, nil
	case *leastResponse:
		return &spread{rule: capable, next: mix(seed), even: true}, nil
	case *fastest:
		return &spread{rule: swift, next: mix(seed), even: true}, nil
	}
	return policy, err
}

// ruleOf is the rule of a valid policy. The policy instance also restricts the
// candidates, see New.
func ruleOf(p api.Policy) rule {
	r, _ := namedRule(p)
	return r
}

// namedRule is ruleOf; known says whether this version has the policy.
func namedRule(p api.Policy) (_ rule, known bool) {
	switch p.Name {
	case "", api.PolicyRoundRobin, api.PolicyRandom, api.PolicyBilliard, api.PolicyLeastConnections, api.PolicyTwoChoices,
		api.PolicyLeastResponse, api.PolicyFastest, api.PolicyInstance:
		return equal, true
	case api.PolicyWeighted:
		return weighted, true
	case api.PolicyClosest:
		return closest, true
	case api.PolicyProximity:
		return proximity{p}.shares, true
	case api.PolicyLocal:
		other, _ := api.NamedPolicy(p.Fallback) // of a valid policy it is valid
		fallback := ruleOf(other)
		return func(c []*Endpoint, w []float64) {
			if !local(c, w) {
				fallback(c, w)
			}
		}, true
	}
	return equal, false
}

// ByDistance says whether a policy prefers what is near.
func ByDistance(p api.Policy) bool {
	switch p.Name {
	case api.PolicyClosest, api.PolicyProximity, api.PolicyFastest:
		return true
	case api.PolicyLocal:
		return p.Fallback == api.PolicyClosest || p.Fallback == api.PolicyProximity
	}
	return false
}

// NeedsDistances says whether a policy uses distances with these endpoints: some are on other
// workers, and those on the own worker do not get all requests.
func NeedsDistances(p api.Policy, v View) bool {
	if !ByDistance(p) {
		return false
	}
	others := false
	for i := range v.Endpoints {
		e := &v.Endpoints[i]
		if e.Local && e.class() == healthy && p.Name != api.PolicyProximity && p.Name != api.PolicyFastest {
			return false
		}
		others = others || !e.Local
	}
	return others
}
