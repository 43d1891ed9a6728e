package root

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// Following the demand from cluster to cluster: of a service with the scheduler
// nearest-demand and a fixed number of replicas one at a time moves to the cluster where
// its requests enter, as off a cluster that is drained: another is made there first.
// Services whose requests decide how many run follow by that already.

// leadFor is how long a replica must have been better placed in another cluster.
const leadFor = 30 * time.Second

// leading is what is known of a service of which a replica should be in another cluster.
type leading struct {
	from, to string    // "": none should
	since    time.Time // for as long
	why      string
	// going is the instance that is being moved, since moved, which is when one was last.
	going wire.InstanceID
	moved time.Time
}

// follows says whether a number of replicas is divided by where requests enter.
func follows(spec *api.Service) bool {
	return spec != nil && spec.Scheduler == api.NearestDemand && !spec.Replicas.Elastic() && !spec.Pins()
}

// entering is how much is asked for of a service at a cluster, as it said last.
func (c *cluster) entering(svc string) float64 {
	if c.agg == nil {
		return 0
	}
	for i := range c.agg.Entering {
		if e := &c.agg.Entering[i]; e.Key() == svc {
			return e.Rate
		}
	}
	return 0
}

// lookLeads judges in which clusters replicas should be, and says whether one is to be
// moved now.
func (m *model) lookLeads(now time.Time) (changed bool) {
	keys := map[string]bool{}
	for _, c := range m.clusters {
		if c.agg != nil {
			for i := range c.agg.Entering {
				keys[c.agg.Entering[i].Key()] = true
			}
		}
	}
	for key, l := range m.leads {
		if !keys[key] && (l.moved.IsZero() || now.Sub(l.moved) > sla.Rest) {
			delete(m.leads, key)
		} else {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return false
	}
	t := m.begin()
	var g given
	for _, key := range records.SortedKeys(keys) {
		app, service, _ := strings.Cut(key, ".")
		a := m.apps[app]
		if a == nil || !a.Deleting.IsZero() || !follows(a.Spec.Services[service]) {
			delete(m.leads, key)
			continue
		}
		if g.same == nil {
			g = t.given()
		}
		l := m.leads[key]
		if l == nil {
			l = &leading{}
			if m.leads == nil {
				m.leads = map[string]*leading{}
			}
			m.leads[key] = l
		}
		if l.going != "" {
			i := m.insts[l.going]
			if i != nil && !i.Draining && i.Cluster == l.from && now.Sub(l.moved) < sla.Rest {
				continue
			}
			*l, changed = leading{moved: now}, true
		}
		from, to, why := t.better(key, a.Spec.Services[service], g, now)
		if from != l.from || to != l.to {
			l.from, l.to, l.since = from, to, now
		}
		l.why = why
		if from != "" && now.Sub(l.since) >= leadFor && (l.moved.IsZero() || now.Sub(l.moved) >= sla.Rest) {
			l.going, l.moved, changed = t.lastIn(app, service, from), now, true
		}
	}
	return changed
}

// lastIn is the instance of a service in a cluster with the highest ordinal.
func (t *tx) lastIn(app, service, cluster string) (id wire.InstanceID) {
	last := -1
	for _, i := range t.of(app, service) {
		if i.Cluster == cluster && !i.Draining && i.Ordinal > last {
			id, last = i.ID, i.Ordinal
		}
	}
	return id
}

// better is the cluster that should have one replica less of a service and the one that
// should have one more, "" where all are where they should be.
func (t *tx) better(key string, spec *api.Service, g given, now time.Time) (from, to, why string) {
	app, service, _ := strings.Cut(key, ".")
	for _, i := range t.of(app, service) {
		if i.Cluster == "" || i.Draining || i.Unreachable || !t.answers(i) {
			return "", "", "" // where it is then will show
		}
	}
	req := t.request(app, service, spec, 1)
	var list []place.Leading
	rates := map[string]float64{}
	for _, v := range t.views(key, spec, g, now) {
		n, _ := place.Room(v, req)
		list = append(list, place.Leading{Cluster: v.ID, Replicas: v.Same, Entering: v.Entering, Room: n > 0 && !place.Unlikely(v, req)})
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
func (t *tx) led(key string, spec *api.Service, list []*wire.Instance) (id wire.InstanceID, why string) {
	l := t.m.leads[key]
	if l == nil || l.going == "" || !follows(spec) {
		return "", ""
	}
	for _, i := range list {
		if c := t.m.clusters[i.Cluster]; i.ID == l.going && c != nil && t.mayMove(i, c) {
			return i.ID, l.why
		}
	}
	return "", ""
}

// checkEntering bounds what a cluster says that is asked for there.
func checkEntering(list []wire.Entering) []wire.Entering {
	list = list[:min(len(list), wire.MaxEntering)]
	for i := range list {
		e := &list[i]
		e.App, e.Service = cut(e.App, maxName), cut(e.Service, maxName)
		if !(e.Rate > 0) || e.Rate > maxRate {
			e.Rate = 0
		}
	}
	return list
}

// maxRate bounds a rate that a cluster says, in requests per second.
const maxRate = 1e9
