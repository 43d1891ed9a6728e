package place

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/wire"
)

// Untold says whether something is requested of which aggregates say nothing: what is to be
// near (workers measure it), host paths and users, the service network, or what a plugin answers.
func Untold(req Request) bool {
	return len(req.Latency)+len(req.HostPaths) > 0 || req.HostUser != "" || req.Overlay != "" || req.Plugin != ""
}

// Gained says whether a cluster which could not take what is requested when its aggregate
// was was may be able to, now that it is is: whether something that is asked for has become
// more, or has changed in a way of which an aggregate does not tell whether it is for the
// better. Where it says no, all that is seen of the cluster has stayed as it was or become
// less. A worker may have gained what others have lost twice, so no is not for ever: who
// waits is to ask again after a while.
func Gained(was, is wire.Aggregate, req Request) bool {
	demand := amount.ToVec(amount.Clean(req.Demand))
	before, after := estimate.SpreadsOf(&was), estimate.SpreadsOf(&is)
	had, has := amount.ToVec(was.Capacity), amount.ToVec(is.Capacity)
	for j := range amount.Kinds {
		if demand[j] <= 0 {
			continue
		}
		b, a := before[j], after[j]
		if a.Sum > b.Sum || a.Max > b.Max || a.Dev > b.Dev*(1+amount.Slack) || has[j] > had[j] {
			return true
		}
	}
	switch {
	case is.Workers > was.Workers, is.Suspect < was.Suspect, is.Cordoned < was.Cordoned, is.Instances < was.Instances:
		return true
	case !slices.Equal(is.Areas, was.Areas), !slices.Equal(is.Runtimes, was.Runtimes),
		!slices.Equal(is.Plugins, was.Plugins):
		return true
	case req.Priority > 0 && !slices.Equal(is.Lower, was.Lower):
		return true
	case len(req.Architecture) > 0 && !maps.Equal(is.Architectures, was.Architectures):
		return true
	case len(req.Affinity.Labels)+len(req.AntiAffinity.Labels) > 0 &&
		(is.MoreLabels || !maps.Equal(is.Labels, was.Labels)):
		return true
	case asksDevices(demand, req.Devices) && !maps.Equal(is.Devices, was.Devices):
		return true
	case len(req.Latency) > 0 && (is.Around == nil) != (was.Around == nil) || is.Around != nil && was.Around != nil &&
		*is.Around != *was.Around:
		return true
	}
	return (is.Disc == nil) != (was.Disc == nil) || is.Disc != nil && *is.Disc != *was.Disc
}
