package route

import "github.com/verge-edge/verge/api"

// NeedsDistances says whether a policy goes by distances with these endpoints:
// there are some on other workers, and those of the own one do not get everything.
func NeedsDistances(p api.Policy, v View) bool {
	switch p.Name {
	case api.PolicyClosest, api.PolicyProximity, api.PolicyFastest:
	case api.PolicyLocal:
		if p.Fallback != api.PolicyClosest && p.Fallback != api.PolicyProximity {
			return false
		}
	default:
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
