package overflow

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Table is what runs in other clusters, by application and service.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Holds, Drop: "what runs elsewhere for want of room is decided anew",
}, table.Rules[Record]{Group: state.OfService[Record]})

// Key + app.service is what runs in other clusters than those where its requests
// enter.
const Key = "over."

// OverFor is how long a cluster must lack less before less of its demand is served
// elsewhere. It is longer than a cluster takes to try again what it had no room for,
// in which time it lacks nothing.
const OverFor = 20 * time.Second

// Record of one service.
type Record struct {
	V       int        `json:"v"`
	App     string     `json:"app"`
	Service string     `json:"service"`
	Gives   []rpc.Give `json:"gives"`
}

// Lull lets time pass for what the clusters lack, and reports whether anything has
// changed by that.
func Lull(m *state.Model, now time.Time) (changed bool) {
	changed = placement.LookLeads(m, now)
	for name, c := range m.Clusters {
		if c.Suspect || !c.EverHeard || c.Aggregate == nil {
			continue // as it was
		}
		said := map[string]wire.ServiceShort{}
		for _, s := range c.Aggregate.Short {
			said[s.Key()] = s
		}
		if c.Short == nil {
			// The root before this one, or this one before it started again, knew more.
			c.Short = map[string]*state.Shortage{}
			for key, o := range Table.Rows(m.DB) {
				for _, g := range o.Gives {
					if g.From == name {
						Lacks(c, key).Held.N += g.N
						c.Short[key].Full = strings.TrimPrefix(g.Why, name+noRoom)
					}
				}
			}
		}
		for key := range said {
			Lacks(c, key)
		}
		for key, s := range c.Short {
			is, ok := said[key]
			if is.Max > s.Said.Max {
				s.Held.Less(is.Max - s.Said.Max) // it may run these itself now
			}
			is.Max = max(is.Max, s.Said.Max)
			if ok {
				is.Max = said[key].Max
			}
			s.Said = is
			if is.Short > 0 {
				s.Full = is.Full
			}
			changed = s.Held.See(is.Short, now, OverFor) || changed
			if !ok && s.Held.N == 0 {
				delete(c.Short, key)
			}
		}
	}
	return changed
}

const noRoom = " has no room: "

// Lacks returns what a cluster lacks of a service (app.service), to be changed.
func Lacks(c *state.Cluster, key string) *state.Shortage {
	s := c.Short[key]
	if s == nil {
		s = &state.Shortage{}
		c.Short[key] = s
	}
	return s
}

// Lulled says whether some cluster lacks less than before, and time has to tell whether it stays
// so.
func Lulled(m *state.Model) bool {
	for _, l := range placement.Memory(m).Leads {
		if l.From != "" || l.Going != "" {
			return true
		}
	}
	for _, c := range m.Clusters {
		for _, s := range c.Short {
			if s.Held.Waits() {
				return true
			}
		}
	}
	return false
}

// Decide lets run in other clusters what clusters have demand for and no room, or no
// right to run.
func Decide(t *state.Tx, now time.Time) {
	keys := map[string]bool{}
	for key := range Table.Rows(t.Model.DB) {
		keys[key] = true
	}
	for _, c := range t.Model.Clusters {
		for key := range c.Short {
			keys[key] = true
		}
	}
	if len(keys) == 0 {
		return
	}
	given := placement.Allocated(t)
	for _, key := range records.SortedKeys(keys) {
		o := Table.Rows(t.Model.DB)[key]
		out, free, ok := spill(t, key, given, now)
		if !ok {
			if o != nil {
				Table.Put(t.Rows, key, nil)
			}
			continue
		}
		app, service, _ := strings.Cut(key, ".")
		var before []rpc.Give
		if o != nil {
			before = o.Gives
		}
		if !slices.Equal(before, out.Gives) {
			var next *Record
			if len(out.Gives) > 0 {
				next = &Record{V: wire.Version, App: app, Service: service, Gives: out.Gives}
			}
			Table.Put(t.Rows, key, next)
			tellGives(t, key, before, out.Gives)
		}
		spec := t.Model.Apps[app].Spec.Services[service]
		for name, why := range out.Refused {
			if c := t.Model.Clusters[name]; placement.Refuses(c, key, spec, false, now) == "" {
				c.Refused[key] = state.Refusal{Spec: spec, At: now, Wait: time.Minute, Why: why}
			}
		}
		for _, name := range records.SortedKeys(out.Assign) {
			n := min(out.Assign[name], len(free))
			d := place.Decision{
				V: wire.Version, Kind: place.KindClusters, Request: place.NewRequest(key, spec, n),
				Candidates: len(t.Model.Clusters),
				Shares:     []place.ShareOut{{Cluster: name, Count: n}}, Reason: demandAt(out.Gives, name),
			}
			for _, i := range free[:n] {
				next := t.Advance(*i, wire.ClusterScheduled, now, "delegated to cluster "+name)
				next.Cluster, next.Avoid = name, nil
				t.Put(next)
				t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
			}
			free = free[n:]
		}
		for name, n := range out.Take {
			takeRights(t, app, service, name, n, now)
		}
	}
}

// demandAt says for whose demand a cluster is given rights.
func demandAt(gives []rpc.Give, name string) string {
	for _, g := range gives {
		if g.To == name {
			return "for requests that enter at " + g.From + ", since " + g.Why
		}
	}
	return "for requests that enter there"
}

// takeRights ends n rights of a cluster that nothing uses, the highest first.
func takeRights(t *state.Tx, app, service, name string, n int, now time.Time) {
	list := t.Of(app, service)
	slices.Reverse(list)
	c := t.Model.Clusters[name]
	for _, i := range list {
		if n > 0 && i.Cluster == name && !i.Draining && c.Seen[i.ID] == nil {
			t.End(*i, now)
			n--
		}
	}
}

// spill is what is to be decided of a service (app.service) now, with the rights that
// no cluster has; false where its requests decide nothing.
func spill(t *state.Tx, key string, given placement.Allocations, now time.Time) (out scale.Overflow,
	free []*wire.Instance, ok bool) {
	app, service, _ := strings.Cut(key, ".")
	a := t.Model.Apps[app]
	if a == nil || !a.Deleting.IsZero() || a.Spec.Services[service] == nil ||
		!a.Spec.Services[service].Replicas.Elastic() {
		return out, nil, false
	}
	spec := a.Spec.Services[service]
	coming, active := 0, 0
	rights, used := map[string]int{}, map[string]int{}
	for _, i := range t.Of(app, service) {
		c := t.Model.Clusters[i.Cluster]
		switch {
		case i.Draining:
			if Returns(t, i, now) {
				coming++
			}
			continue
		case i.State == wire.Requested && i.Cluster == "":
			if !placement.StillHeld(t, i, now) {
				free = append(free, i)
			}
		case c != nil:
			rights[i.Cluster]++
			if c.Seen[i.ID] != nil || c.Suspect || !c.EverHeard {
				used[i.Cluster]++
			}
		}
		active++
	}
	req := placement.Request(t, app, service, spec, spec.Replicas.Max)
	views := placement.Views(t, key, spec, given, now)
	var sites []scale.Site
	for n := range views {
		v := &views[n]
		c := t.Model.Clusters[v.ID]
		s := scale.Site{Name: v.ID, Heard: v.Connected && c.EverHeard, Gone: t.Model.Dead(c, now) &&
			!t.Model.Alone, Rights: rights[v.ID], Used: used[v.ID], Km: map[string]float64{}}
		if sh := t.Model.Shares[v.ID+"."+key]; sh != nil {
			s.Used = max(s.Used, sh.Min)
		}
		if x := c.Short[key]; x != nil {
			s.Short, s.Full = x.Held.N, x.Full
			s.Unmet, s.Max, s.Extra = x.Said.Unmet, x.Said.Max, x.Said.Extra
			if s.Unmet > 0 {
				s.Full = x.Said.Full
			}
		}
		if s.Heard {
			s.Barred = place.OffSite(*v, req)
			if c.Draining() {
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
	var before []rpc.Give
	if o := Table.Rows(t.Model.DB)[key]; o != nil {
		before = o.Gives
	}
	coming = min(coming, max(0, spec.Replicas.Max-active))
	return scale.Spill(before, sites, len(free), coming), free, true
}

// Returns says whether the right to run an instance will be free when its cluster has let it go.
func Returns(t *state.Tx, i *wire.Instance, now time.Time) bool {
	c := t.Model.Clusters[i.Cluster]
	return i.Draining && c != nil && !t.Model.Dead(c, now)
}

// tellGives tells people what has changed.
func tellGives(t *state.Tx, key string, before, after []rpc.Give) {
	count := func(list []rpc.Give, g rpc.Give) int {
		for _, x := range list {
			if x.From == g.From && x.To == g.To {
				return x.N
			}
		}
		return 0
	}
	for _, g := range after {
		if was := count(before, g); was != g.N {
			t.Event(event.ServiceOverflow, key, "%s run in %s for requests that enter at %s, %d before: %s",
				wire.Count(g.N, "instance"), g.To, g.From, was, g.Why)
		}
	}
	for _, g := range before {
		if count(after, g) == 0 {
			t.Event(event.ServiceOverflow, key, "none of it runs in %s for requests that enter at %s any more", g.To,
				g.From)
		}
	}
}

// Gives of a service that a cluster has to do with, and why some of its demand is
// served nowhere.
func Gives(m *state.Model, key, name string, now time.Time) (list []rpc.Give, unserved string) {
	if o := Table.Rows(m.DB)[key]; o != nil {
		for _, g := range o.Gives {
			if g.From == name || g.To == name {
				list = append(list, g)
			}
		}
	}
	if c := m.Clusters[name]; c != nil && c.Short[key] != nil && !recovery.Holding(m, now) {
		t := m.Begin()
		if out, _, ok := spill(t, key, placement.Allocated(t), now); ok {
			unserved = out.Unserved[name]
		}
	}
	slices.SortFunc(list, func(a, b rpc.Give) int {
		return cmp.Or(cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To))
	})
	return list, unserved
}

// CheckShort bounds what a cluster says that it lacks.
func CheckShort(list []wire.ServiceShort) []wire.ServiceShort {
	list = list[:min(len(list), wire.MaxShort)]
	for i := range list {
		s := &list[i]
		s.App, s.Service, s.Full = state.Cut(s.App, state.MaxName), state.Cut(s.Service, state.MaxName),
			state.Cut(s.Full, wire.MaxShortWords)
		for _, n := range []*int{&s.Short, &s.Unmet, &s.Max, &s.Extra} {
			*n = min(max(*n, 0), maxLack)
		}
	}
	return list
}

// maxLack bounds a number of instances that a cluster says.
const maxLack = 1 << 20
