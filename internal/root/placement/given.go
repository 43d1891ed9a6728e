package placement

import (
	"maps"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Allocations is what the clusters have been given so far.
type Allocations struct {
	// pending are the reservations that no aggregate shows yet, by cluster.
	pending map[string]api.Resources
	// same counts instances, by app.service and cluster.
	same map[string]map[string]int
	// used is what the instances of an app.service reserve, wherever they are.
	used map[string]api.Resources
	// eager are those who wait and come before others who do: they are asked about
	// as soon as a cluster that refused them shows a gain.
	eager map[string]bool
}

// Allocated looks once at all instances.
func Allocated(t *state.Tx) Allocations {
	g := Allocations{pending: map[string]api.Resources{}, same: map[string]map[string]int{},
		used: map[string]api.Resources{}}
	for _, i := range t.Instances("") {
		if i.Cluster == "" || i.Draining {
			continue
		}
		var need, used api.Resources
		if c, app := t.Model.Clusters[i.Cluster], t.Model.Apps[i.App]; c != nil && app != nil &&
			app.Spec.Services[i.Service] != nil {
			rep := c.Seen[i.ID]
			// A right to run one reserves nothing, but where the cluster is yet to get its
			// first: that is placed at once. So does an index of a job that waits for its turn.
			waits := app.Spec.Services[i.Service].Job != nil &&
				(rep == nil || rep.State != wire.WorkerScheduled && rep.State != wire.Running)
			spare := waits || rep == nil && app.Spec.Services[i.Service].Replicas.Elastic()
			spare = spare && t.Model.Shares[i.Cluster+"."+i.App+"."+i.Service] != nil
			if !spare {
				used = app.Spec.Services[i.Service].Resources
			}
			if !spare && (rep == nil || rep.State != wire.WorkerScheduled && rep.State != wire.Running) {
				need = used
			}
		}
		g.add(i.App+"."+i.Service, i.Cluster, need, used)
	}
	return g
}

// add notes an instance of a service (app.service) of which need is still to be reserved,
// and used is in all.
func (g *Allocations) add(key, cluster string, need, used api.Resources) {
	if g.same[key] == nil {
		g.same[key] = map[string]int{}
	}
	g.same[key][cluster]++
	g.pending[cluster] = amount.Add(g.pending[cluster], need)
	g.used[key] = amount.Add(g.used[key], used)
}

// took notes what a decision gives to clusters.
func (g *Allocations) took(key string, spec *api.Service, d *place.Decision) {
	n := 0
	for _, sh := range d.Shares {
		for range sh.Count {
			need := spec.Resources
			if n++; spec.Job != nil && n > spec.Job.Parallelism {
				need = api.Resources{} // it waits for its turn
			}
			if spec.Replicas.Elastic() && g.same[key][sh.Cluster] > 0 {
				need = api.Resources{} // a right, see Allocated
			}
			g.add(key, sh.Cluster, need, need)
		}
	}
}

// copy is one to try decisions about some services on.
func (g *Allocations) copy(keys []string) Allocations {
	next := Allocations{pending: maps.Clone(g.pending), same: maps.Clone(g.same), used: maps.Clone(g.used),
		eager: g.eager}
	for _, key := range keys {
		next.same[key] = maps.Clone(g.same[key])
	}
	return next
}
