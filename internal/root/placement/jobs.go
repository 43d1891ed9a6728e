package placement

import (
	"slices"

	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// OwnerOf is the cluster that has the instances of a job with a schedule; "" for none, also
// where they are only in one that is lost.
func OwnerOf(t *state.Tx, app, svc string) string {
	for _, i := range t.Of(app, svc) {
		if i.Cluster != "" && !i.Draining && !i.Unreachable {
			return i.Cluster
		}
	}
	return ""
}

// together lets a decision about a job with a schedule be one for all its indexes: the
// cluster that has some of them gets the others, else the first that can take it.
func together(t *state.Tx, d *place.Decision, list []*wire.Instance) {
	owner := OwnerOf(t, list[0].App, list[0].Service)
	if owner == "" && len(d.Shares) > 0 {
		owner = d.Shares[0].Cluster
	}
	if owner == "" {
		d.Unplaced = len(list)
		return
	}
	d.Shares, d.Unplaced = []place.ShareOut{{Cluster: owner, Count: len(list)}}, 0
}

// divideJob lets d, which is about those of a job that run at a time, be about n indexes:
// they are divided among the clusters in the same proportion.
func divideJob(d *place.Decision, n int) {
	if len(d.Shares) == 0 {
		d.Unplaced = n
		return
	}
	weights := make([]int, len(d.Shares))
	for k, sh := range d.Shares {
		weights[k] = sh.Count
	}
	d.Shares, d.Unplaced = slices.Clone(d.Shares), 0
	for k, count := range job.Divide(n, weights) {
		d.Shares[k].Count = count
	}
	d.Shares = slices.DeleteFunc(d.Shares, func(sh place.ShareOut) bool { return sh.Count == 0 })
}
