package root

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// What the silence of a worker affects is an event of its cluster here. The worker is named
// only where its cluster tells it (--share-details).

// maxLosses of a cluster are followed at a time.
const maxLosses = 100

// loses notes an instance of which the worker is not heard of any more.
func (cl *cluster) loses(i *wire.Instance, now time.Time) {
	if cl.losing == nil {
		cl.losing = map[string]*life.Loss{}
	}
	if cl.losing[i.Worker] == nil {
		cl.losing[i.Worker] = &life.Loss{Since: now, Cluster: cl.Name}
	}
	cl.losing[i.Worker].Add(i)
}

// tellLost says what a report says that is lost.
func (c *core) tellLost(cl *cluster, now time.Time) {
	for _, worker := range records.SortedKeys(cl.losing) {
		loss, what := cl.losing[worker], "a worker"
		if worker != "" {
			what = "worker " + worker
		}
		c.events.Add(now, "cluster/"+cl.Name, "cluster/"+cl.Name, what+" is not heard of: "+loss.Affected())
		cl.losses = append(cl.losses, loss)
	}
	cl.losses = cl.losses[max(0, len(cl.losses)-maxLosses):]
	cl.losing = nil
}

// tellFound says what became of what was lost, once that is known. The mutex is held.
func (c *core) tellFound(now time.Time) {
	for _, name := range records.SortedKeys(c.m.clusters) {
		cl := c.m.clusters[name]
		cl.losses = slices.DeleteFunc(cl.losses, func(l *life.Loss) bool {
			what, over := l.Over(func(id wire.InstanceID) *wire.Instance {
				if rep := cl.seen[id]; rep != nil {
					return &rep.Instance
				}
				i := c.m.insts[id]
				if i == nil {
					return nil
				}
				cur := c.m.merged(i)
				return &cur
			}, now)
			if over {
				c.events.Add(now, tier, "cluster/"+name, what)
			}
			return over
		})
	}
}
