package placement

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Following the demand from cluster to cluster: of a service with the scheduler
// nearest-demand and a fixed number of replicas one at a time moves to the cluster where
// its requests enter, as off a cluster that is drained: another is made there first.
// Services whose requests decide how many run follow by that already.

// LeadFor is how long a replica must have been better placed in another cluster.
const LeadFor = 30 * time.Second

// Leading is what is known of a service of which a replica should be in another cluster.
type Leading struct {
	From, To string    // "": none should
	since    time.Time // for as long
	Why      string
	// going is the instance that is being moved, since moved, which is when one was last.
	Going wire.InstanceID
	moved time.Time
}

// follows says whether a number of replicas is divided by where requests enter.
func follows(spec *api.Service) bool {
	return spec != nil && spec.Scheduler == api.NearestDemand && !spec.Replicas.Elastic() && !spec.Pins()
}

// entering is how much is asked for of a service at a cluster, as it said last.
func entering(c *state.Cluster, svc string) float64 {
	if c.Aggregate == nil {
		return 0
	}
	for i := range c.Aggregate.Entering {
		if e := &c.Aggregate.Entering[i]; e.Key() == svc {
			return e.Rate
		}
	}
	return 0
}

// LookLeads judges in which clusters replicas should be, and says whether one is to be
// moved now.
func LookLeads(m *state.Model, now time.Time) (changed bool) {
	keys := map[string]bool{}
	for _, c := range m.Clusters {
		if c.Aggregate != nil {
			for i := range c.Aggregate.Entering {
				keys[c.Aggregate.Entering[i].Key()] = true
			}
		}
	}
	for key, l := range Memory(m).Leads {
		if !keys[key] && (l.moved.IsZero() || now.Sub(l.moved) > sla.Rest) {
			delete(Memory(m).Leads, key)
		} else {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return false
	}
	t := m.Begin()
	var g Allocations
	for _, key := range records.SortedKeys(keys) {
		app, service, _ := strings.Cut(key, ".")
		a := m.Apps[app]
		if a == nil || !a.Deleting.IsZero() || !follows(a.Spec.Services[service]) {
			delete(Memory(m).Leads, key)
			continue
		}
		if g.same == nil {
			g = Allocated(t)
		}
		l := Memory(m).Leads[key]
		if l == nil {
			l = &Leading{}
			if Memory(m).Leads == nil {
				Memory(m).Leads = map[string]*Leading{}
			}
			Memory(m).Leads[key] = l
		}
		if l.Going != "" {
			i := m.Insts[l.Going]
			if i != nil && !i.Draining && i.Cluster == l.From && now.Sub(l.moved) < sla.Rest {
				continue
			}
			*l, changed = Leading{moved: now}, true
		}
		from, to, why := better(t, key, a.Spec.Services[service], g, now)
		if from != l.From || to != l.To {
			l.From, l.To, l.since = from, to, now
		}
		l.Why = why
		if from != "" && now.Sub(l.since) >= LeadFor && (l.moved.IsZero() || now.Sub(l.moved) >= sla.Rest) {
			l.Going, l.moved, changed = lastIn(t, app, service, from), now, true
		}
	}
	return changed
}

// lastIn is the instance of a service in a cluster with the highest ordinal.
func lastIn(t *state.Tx, app, service, cluster string) (id wire.InstanceID) {
	last := -1
	for _, i := range t.Of(app, service) {
		if i.Cluster == cluster && !i.Draining && i.Ordinal > last {
			id, last = i.ID, i.Ordinal
		}
	}
	return id
}

// better is the cluster that should have one replica less of a service and the one that
// should have one more, "" where all are where they should be.
func better(t *state.Tx, key string, spec *api.Service, g Allocations, now time.Time) (from, to, why string) {
	app, service, _ := strings.Cut(key, ".")
	for _, i := range t.Of(app, service) {
		if i.Cluster == "" || i.Draining || i.Unreachable || !answers(t, i) {
			return "", "", "" // where it is then will show
		}
	}
	req := Request(t, app, service, spec, 1)
	var list []place.Leading
	rates := map[string]float64{}
	for _, v := range Views(t, key, spec, g, now) {
		n, _ := place.Room(v, req)
		list = append(list, place.Leading{Cluster: v.ID, Replicas: v.Same, Entering: v.Entering, Room: n > 0 &&
			!place.Unlikely(v, req)})
		rates[v.ID] = v.Entering
	}
	from, to, ok := place.Lead(list)
	if !ok {
		return "", "", ""
	}
	return from, to, fmt.Sprintf("has %.3g requests a second, %s has %.3g", rates[from], to, rates[to])
}

// led is the instance of a service that is being moved to another cluster, and why; ""
// for none.
func led(t *state.Tx, key string, spec *api.Service, list []*wire.Instance) (id wire.InstanceID, why string) {
	l := Memory(t.Model).Leads[key]
	if l == nil || l.Going == "" || !follows(spec) {
		return "", ""
	}
	for _, i := range list {
		if c := t.Model.Clusters[i.Cluster]; i.ID == l.Going && c != nil && mayMove(i, c) {
			return i.ID, l.Why
		}
	}
	return "", ""
}

// CheckEntering bounds what a cluster says that is asked for there.
func CheckEntering(list []wire.Entering) []wire.Entering {
	list = list[:min(len(list), wire.MaxEntering)]
	for i := range list {
		e := &list[i]
		e.App, e.Service = state.Cut(e.App, state.MaxName), state.Cut(e.Service, state.MaxName)
		if !(e.Rate > 0) || e.Rate > maxRate {
			e.Rate = 0
		}
	}
	return list
}

// maxRate bounds a rate that a cluster says, in requests per second.
const maxRate = 1e9
