package clusters

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/lifecycle"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// tellLost says what a report says that is lost.
func tellLost(c *core.Core, cl *state.Cluster, now time.Time) {
	for _, worker := range records.SortedKeys(cl.Losing) {
		loss, what := cl.Losing[worker], "a worker"
		if worker != "" {
			what = "worker " + worker
		}
		c.EventRing.Add(event.ClusterLoss.On(cl.Name, "%s does not report: %s", what, loss.Affected()).By(now,
			"cluster/"+cl.Name))
		cl.Losses = append(cl.Losses, loss)
	}
	cl.Losses = cl.Losses[max(0, len(cl.Losses)-lifecycle.MaxLosses):]
	cl.Losing = nil
}

// TellFound says what became of what was lost, once that is known. It is called within core.Do.
func TellFound(c *core.Core, now time.Time) {
	for _, name := range records.SortedKeys(c.M.Clusters) {
		cl := c.M.Clusters[name]
		cl.Losses = slices.DeleteFunc(cl.Losses, func(l *suspicion.Loss) bool {
			what, over := l.Over(func(id wire.InstanceID) *wire.Instance {
				if rep := cl.Seen[id]; rep != nil {
					return &rep.Instance
				}
				i := c.M.Insts[id]
				if i == nil {
					return nil
				}
				cur := c.M.Merged(i)
				return &cur
			}, now)
			if over {
				c.EventRing.Note(now, event.ClusterLossSettled, name, what)
			}
			return over
		})
	}
}
