package place

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/wire"
)

// Untold says whether a request depends on what aggregates do not tell: nearness (workers
// measure it), host paths and users, the service network, or a plugin's answer.
func Untold(req Request) bool {
	return len(req.Latency)+len(req.HostPaths) > 0 || req.HostUser != "" || req.Overlay != "" || req.Plugin != ""
}

// Gained says whether a cluster that could not take a request when its aggregate was was
// may be able to now that it is is: whether something requested has increased, or has changed
// in a way that may be an improvement. If not, everything visible of the cluster is the same
// or less. Since one worker may have gained while others lost more, a waiting request must
// still be retried after a while.
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
	case device.Needed(demand, req.Devices) && !maps.Equal(is.Devices, was.Devices):
		return true
	case len(req.Latency) > 0 && (is.Around == nil) != (was.Around == nil) || is.Around != nil && was.Around != nil &&
		*is.Around != *was.Around:
		return true
	}
	return (is.Disc == nil) != (was.Disc == nil) || is.Disc != nil && *is.Disc != *was.Disc
}
