package placement

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Elsewhere says whether another cluster could take an instance now, or whether
// nobody wants it any more.
func Elsewhere(t *state.Tx, i *wire.Instance, now time.Time) bool {
	app := t.Model.Apps[i.App]
	if app == nil || !app.Deleting.IsZero() || app.Spec.Services[i.Service] == nil {
		return true
	}
	key, svc := i.App+"."+i.Service, app.Spec.Services[i.Service]
	views := Views(t, key, svc, Allocated(t), now)
	for n := range views {
		if views[n].ID == i.Cluster {
			views[n].Refused = "it gave it back"
		}
	}
	return len(place.RankClusters(views, Request(t, i.App, i.Service, svc, 1)).Shares) > 0
}

// StillHeld says whether a cluster that gave an instance back still has something of it;
// nobody may be given it before that is gone. Only those that once had it are
// looked at: what others claim is no concern of it. A dead one is not waited for.
func StillHeld(t *state.Tx, i *wire.Instance, now time.Time) bool {
	for _, name := range i.Avoid {
		if c := t.Model.Clusters[name]; c != nil && !t.Model.Dead(c, now) {
			if _, ok := c.Seen[i.ID]; ok {
				return true
			}
		}
	}
	return false
}

// Views are the clusters as the ranking sees them for one service.
func Views(t *state.Tx, svc string, spec *api.Service, g Allocations, now time.Time) []place.ClusterView {
	app, _, _ := strings.Cut(svc, ".")
	lacks := lacking(t, app, spec)
	out := make([]place.ClusterView, 0, len(t.Model.Clusters))
	for _, name := range records.SortedKeys(t.Model.Clusters) {
		c := t.Model.Clusters[name]
		v := c.View()
		v.Pending, v.Same, v.Lacks = g.pending[name], g.same[svc][name], lacks(c)
		if follows(spec) {
			v.Entering = entering(c, svc)
		}
		v.Refused = Refuses(c, svc, spec, g.eager[svc], now)
		out = append(out, v)
	}
	return out
}
