package proxymity

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

// policyShares asks Verge's policy for the shares of replicas at these round trip
// times in ms; own is the index of the one on the asking worker, -1 for none.
func policyShares(p api.Policy, rtt []float64, own int, seed uint64) ([]float64, error) {
	policy, err := route.New(p, seed)
	if err != nil {
		return nil, err
	}
	var list []route.Endpoint
	for i, ms := range rtt {
		list = append(list, route.Endpoint{
			ID: fmt.Sprint("replica-", i), Ready: true, Local: i == own, Ordinal: i,
			RTT: time.Duration(ms * float64(time.Millisecond)), Source: route.Measured,
		})
	}
	v := route.NewView(seed, list)
	out := make([]float64, len(rtt))
	weights := policy.Weights(v)
	for i, e := range v.Endpoints {
		out[e.Ordinal] = weights[i]
	}
	return out, nil
}

// proximity with the paper's parameters.
func proximity(alpha, beta float64, decay string, local time.Duration) api.Policy {
	return api.Policy{Name: api.PolicyProximity, Alpha: alpha, Beta: beta, Decay: decay, LocalRTT: api.Duration(local)}
}
