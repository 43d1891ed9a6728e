package cluster

import (
	"cmp"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// pluginDefault begins the default of a cluster that is a plugin; its name follows.
const pluginDefault = schedulerPlugin + ":"

// scheduler of a service: its own, or that of the cluster.
func (m *model) scheduler(s *wire.Share) string {
	name, _ := m.schedulerOf(s)
	return name
}

// schedulerOf is scheduler, with the name of the plugin where that is what it is.
func (m *model) schedulerOf(s *wire.Share) (name, plugin string) {
	if s.Spec.Scheduler != "" {
		return s.Spec.Scheduler, s.Spec.Plugin
	}
	if plugin, ok := strings.CutPrefix(m.byDefault, pluginDefault); ok {
		return schedulerPlugin, plugin
	}
	return cmp.Or(m.byDefault, place.ROM), ""
}

// contend places what waits of services with a drf scheduler, by application and
// service: whoever has the smallest share of this cluster is next. What runs counts.
func (t *tx) contend(waiting map[string][]*wire.Instance, now time.Time) {
	if len(waiting) == 0 {
		return
	}
	var total api.Resources
	has := map[string]int{} // instances by service
	for name, w := range t.m.Workers {
		if !w.Suspect && w.EverHeard {
			total = amount.Add(total, w.Info.Capacity)
		}
		for key, n := range t.used()[name].same {
			has[key] += n
		}
	}
	others := map[string]api.Resources{}
	var list []turn.Contender
	for _, key := range records.SortedKeys(t.m.Shares) {
		s := t.m.Shares[key]
		group := groupOf(s)
		used := amount.Times(s.Spec.Resources, has[key])
		if n := len(waiting[key]); n > 0 {
			list = append(list, turn.Contender{
				Service: key, Group: group, Weight: t.standing(group).Weight, Priority: s.Spec.Priority, Used: used, Demand: s.Spec.Resources, Waiting: n,
			})
		} else {
			others[group] = amount.Add(others[group], used)
		}
	}
	r := turn.NewRound(total, others, list)
	defer func() { t.turn = nil }()
	for n := r.Next(); n >= 0; n = r.Next() {
		key, turn := list[n].Service, r.Turn()
		t.turn = &turn
		i := waiting[key][0]
		waiting[key] = waiting[key][1:]
		if t.placeOne(*i, t.shareFor(i), now) {
			r.Placed()
		} else {
			r.Passed() // another of it may not have failed where there is room
		}
	}
}

// rate tells the index what each worker does of a service, by its profile.
func (t *tx) rate(key string) {
	if t.told[key] {
		return
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[key] = true
	r := t.rated(key)
	if r == nil {
		return
	}
	for name, w := range t.m.Workers {
		serves, _ := r.on(w)
		t.index().Rate(key, name, serves)
	}
}
