package root

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/wire"
)

// keyOver + app.service is what runs in other clusters than those where its requests
// enter.
const keyOver = "over."

// overFor is how long a cluster must lack less before less of its demand is served
// elsewhere. It is longer than a cluster takes to try again what it had no room for,
// in which time it lacks nothing.
const overFor = 20 * time.Second

// overflow of one service.
type overflow struct {
	V       int         `json:"v"`
	App     string      `json:"app"`
	Service string      `json:"service"`
	Gives   []wire.Give `json:"gives"`
}

// shortage is what a cluster lacks of a service, in this process.
type shortage struct {
	said wire.ServiceShort // as it said last
	held scale.Hold
	full string // why, while held is above 0
}

// lull lets time pass for what the clusters lack, and reports whether anything has
// changed by that.
func (m *model) lull(now time.Time) (changed bool) {
	changed = m.lookLeads(now)
	for name, c := range m.clusters {
		if c.suspect || !c.everHeard || c.agg == nil {
			continue // as it was
		}
		said := map[string]wire.ServiceShort{}
		for _, s := range c.agg.Short {
			said[s.Key()] = s
		}
		if c.short == nil {
			// The root before this one, or this one before it started again, knew more.
			c.short = map[string]*shortage{}
			for key, o := range m.over {
				for _, g := range o.Gives {
					if g.From == name {
						c.lacks(key).held.N += g.N
						c.short[key].full = strings.TrimPrefix(g.Why, name+noRoom)
					}
				}
			}
		}
		for key := range said {
			c.lacks(key)
		}
		for key, s := range c.short {
			is, ok := said[key]
			if is.Max > s.said.Max {
				s.held.Less(is.Max - s.said.Max) // it may run these itself now
			}
			is.Max = max(is.Max, s.said.Max)
			if ok {
				is.Max = said[key].Max
			}
			s.said = is
			if is.Short > 0 {
				s.full = is.Full
			}
			changed = s.held.See(is.Short, now, overFor) || changed
			if !ok && s.held.N == 0 {
				delete(c.short, key)
			}
		}
	}
	return changed
}

const noRoom = " has no room: "

func (c *cluster) lacks(key string) *shortage {
	s := c.short[key]
	if s == nil {
		s = &shortage{}
		c.short[key] = s
	}
	return s
}

// lulled: some cluster lacks less than before, and time has to tell whether it stays
// so.
func (m *model) lulled() bool {
	for _, l := range m.leads {
		if l.from != "" || l.going != "" {
			return true
		}
	}
	for _, c := range m.clusters {
		for _, s := range c.short {
			if s.held.Waits() {
				return true
			}
		}
	}
	return false
}

// overflow lets run in other clusters what clusters have demand for and no room, or no
// right to run.
func (t *tx) overflow(now time.Time) {
	keys := map[string]bool{}
	for key := range t.m.over {
		keys[key] = true
	}
	for _, c := range t.m.clusters {
		for key := range c.short {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return
	}
	given := t.given()
	for _, key := range records.SortedKeys(keys) {
		o := t.m.over[key]
		out, free, ok := t.spill(key, given, now)
		if !ok {
			if o != nil {
				t.over[key] = nil
			}
			continue
		}
		app, service, _ := strings.Cut(key, ".")
		var before []wire.Give
		if o != nil {
			before = o.Gives
		}
		if !slices.Equal(before, out.Gives) {
			t.over[key] = nil
			if len(out.Gives) > 0 {
				t.over[key] = &overflow{V: wire.Version, App: app, Service: service, Gives: out.Gives}
			}
			t.tellGives(key, before, out.Gives)
		}
		spec := t.m.apps[app].Spec.Services[service]
		for name, why := range out.Refused {
			if c := t.m.clusters[name]; c.refuses(key, spec, false, now) == "" {
				c.refused[key] = refusal{spec: spec, at: now, wait: time.Minute, why: why}
			}
		}
		for _, name := range records.SortedKeys(out.Assign) {
			n := min(out.Assign[name], len(free))
			d := place.Decision{
				V: wire.Version, Kind: place.KindClusters, Request: place.NewRequest(key, spec, n), Candidates: len(t.m.clusters),
				Shares: []place.ShareOut{{Cluster: name, Count: n}}, Reason: demandAt(out.Gives, name),
			}
			for _, i := range free[:n] {
				next := t.advance(*i, wire.ClusterScheduled, now, "delegated to cluster "+name)
				next.Cluster, next.Avoid = name, nil
				t.put(next)
				t.whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
			}
			free = free[n:]
		}
		for name, n := range out.Take {
			t.takeRights(app, service, name, n, now)
		}
	}
}

// demandAt says for whose demand a cluster is given rights.
func demandAt(gives []wire.Give, name string) string {
	for _, g := range gives {
		if g.To == name {
			return "for requests that enter at " + g.From + ", since " + g.Why
		}
	}
	return "for requests that enter there"
}

// takeRights ends n rights of a cluster that nothing uses, the highest first.
func (t *tx) takeRights(app, service, name string, n int, now time.Time) {
	list := t.of(app, service)
	slices.Reverse(list)
	c := t.m.clusters[name]
	for _, i := range list {
		if n > 0 && i.Cluster == name && !i.Draining && c.seen[i.ID] == nil {
			t.end(*i, now)
			n--
		}
	}
}

// spill is what is to be decided of a service (app.service) now, with the rights that
// no cluster has; false where its requests decide nothing.
func (t *tx) spill(key string, given given, now time.Time) (out scale.Overflow, free []*wire.Instance, ok bool) {
	app, service, _ := strings.Cut(key, ".")
	a := t.m.apps[app]
	if a == nil || !a.Deleting.IsZero() || a.Spec.Services[service] == nil || !a.Spec.Services[service].Replicas.Elastic() {
		return out, nil, false
	}
	spec := a.Spec.Services[service]
	coming, active := 0, 0
	rights, used := map[string]int{}, map[string]int{}
	for _, i := range t.of(app, service) {
		c := t.m.clusters[i.Cluster]
		switch {
		case i.Draining:
			if t.returns(i, now) {
				coming++
			}
			continue
		case i.State == wire.Requested && i.Cluster == "":
			if !t.stillHeld(i, now) {
				free = append(free, i)
			}
		case c != nil:
			rights[i.Cluster]++
			if c.seen[i.ID] != nil || c.suspect || !c.everHeard {
				used[i.Cluster]++
			}
		}
		active++
	}
	req := t.request(app, service, spec, spec.Replicas.Max)
	views := t.views(key, spec, given, now)
	var sites []scale.Site
	for n := range views {
		v := &views[n]
		c := t.m.clusters[v.ID]
		s := scale.Site{Name: v.ID, Heard: v.Connected && c.everHeard, Gone: t.m.dead(c, now) && !t.m.alone, Rights: rights[v.ID], Used: used[v.ID], Km: map[string]float64{}}
		if sh := t.m.shares[v.ID+"."+key]; sh != nil {
			s.Used = max(s.Used, sh.Min)
		}
		if x := c.short[key]; x != nil {
			s.Short, s.Full = x.held.N, x.full
			s.Unmet, s.Max, s.Extra = x.said.Unmet, x.said.Max, x.said.Extra
			if s.Unmet > 0 {
				s.Full = x.said.Full
			}
		}
		if s.Heard {
			s.Barred = place.OffSite(*v, req)
			if c.draining() {
				s.Barred = "is being drained"
			}
			s.Room, s.Tight = place.Room(*v, req)
		}
		for o := range views {
			if km, known := place.KmBetween(v.Aggregate, views[o].Aggregate); known && o != n {
				s.Km[views[o].ID] = km
			}
		}
		sites = append(sites, s)
	}
	var before []wire.Give
	if o := t.m.over[key]; o != nil {
		before = o.Gives
	}
	coming = min(coming, max(0, spec.Replicas.Max-active))
	return scale.Spill(before, sites, len(free), coming), free, true
}

// returns: the right to run it will be free when its cluster has let it go.
func (t *tx) returns(i *wire.Instance, now time.Time) bool {
	c := t.m.clusters[i.Cluster]
	return i.Draining && c != nil && !t.m.dead(c, now)
}

// tellGives tells people what has changed.
func (t *tx) tellGives(key string, before, after []wire.Give) {
	count := func(list []wire.Give, g wire.Give) int {
		for _, x := range list {
			if x.From == g.From && x.To == g.To {
				return x.N
			}
		}
		return 0
	}
	for _, g := range after {
		if was := count(before, g); was != g.N {
			t.event("service/"+key, "%s run in %s for requests that enter at %s, %d before: %s", wire.Count(g.N, "instance"), g.To, g.From, was, g.Why)
		}
	}
	for _, g := range before {
		if count(after, g) == 0 {
			t.event("service/"+key, "none of it runs in %s for requests that enter at %s any more", g.To, g.From)
		}
	}
}

// gives of a service that a cluster has to do with, and why some of its demand is
// served nowhere.
func (m *model) gives(key, name string, now time.Time) (list []wire.Give, unserved string) {
	if o := m.over[key]; o != nil {
		for _, g := range o.Gives {
			if g.From == name || g.To == name {
				list = append(list, g)
			}
		}
	}
	if c := m.clusters[name]; c != nil && c.short[key] != nil && !m.holding(now) {
		t := m.begin()
		if out, _, ok := t.spill(key, t.given(), now); ok {
			unserved = out.Unserved[name]
		}
	}
	slices.SortFunc(list, func(a, b wire.Give) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return list, unserved
}

// checkShort bounds what a cluster says that it lacks.
func checkShort(list []wire.ServiceShort) []wire.ServiceShort {
	list = list[:min(len(list), wire.MaxShort)]
	for i := range list {
		s := &list[i]
		s.App, s.Service, s.Full = cut(s.App, maxName), cut(s.Service, maxName), cut(s.Full, wire.MaxShortWords)
		for _, n := range []*int{&s.Short, &s.Unmet, &s.Max, &s.Extra} {
			*n = min(max(*n, 0), maxLack)
		}
	}
	return list
}

// maxLack bounds a number of instances that a cluster says.
const maxLack = 1 << 20
