package demand

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ServeDemand takes what workers say is asked for, until stop is called.
func ServeDemand(c *core.Core) (stop func(), err error) {
	return c.Local.Subscribe(exchange.DemandSubject("*"), func(_ context.Context, msg bus.Msg) {
		var d wire.Demand
		if len(msg.Data) > autoscale.MaxDemand || json.Unmarshal(msg.Data, &d) != nil {
			return // the next one comes in a moment
		}
		OnDemand(c, core.Token(msg.Subject, 1), &d, time.Now())
	})
}

// OnDemand notes what is asked for at a worker.
func OnDemand(c *core.Core, name string, d *wire.Demand, now time.Time) {
	core.Do(c, func(m *state.Model) { onDemand(c, m, name, d, now) })
}

// onDemand is OnDemand with the model.
func onDemand(c *core.Core, m *state.Model, name string, d *wire.Demand, now time.Time) {
	if w := m.Workers[name]; w == nil || !w.Revoked.IsZero() || len(d.Services) > wire.MaxDemandServices {
		return
	}
	span := min(max(d.Span.Std(), autoscale.Epoch/4), 10*autoscale.Epoch)
	if rollouts.Answered(m, name, d.Answers[:min(len(d.Answers), wire.MaxDemandReplicas)], span, now) {
		loop.Poke(c.Wake)
	}
	if upgrades.AnsweredInUpgrade(m, name, d.Answers[:min(len(d.Answers), wire.MaxDemandReplicas)], span, now) {
		loop.Poke(c.Upgrades)
	}
	for i := range d.Services {
		s := &d.Services[i]
		key := s.Key()
		share := autoscale.Delegated(m, key)
		if share == nil && m.Far[key] == nil {
			continue // nobody here knows it
		}
		s.Replicas = s.Replicas[:min(len(s.Replicas), wire.MaxDemandReplicas)]
		if proximity.Leads(m, key) && proximity.Flow(m, key, name, s, span, now) {
			loop.Poke(c.Wake)
		}
		if rollouts.Clocked(m, key, s.Replicas, now) {
			loop.Poke(c.Wake)
		}
		if share != nil {
			if _, elastic := autoscale.BoundsOf(share); !elastic {
				continue // how many there are does not follow from it
			}
		} else if !m.Far[key].Requests.Elastic {
			continue
		}
		book := Memory(m).Demand[key]
		if book == nil {
			if len(Memory(m).Demand) >= autoscale.MaxDemanded {
				continue
			}
			book = &autoscale.Demand{Said: map[string]autoscale.Said{}, Scaler: scale.NewScaler()}
			if sc := autoscale.Table.Rows(m.DB)[key]; sc != nil {
				book.From = sc.Want
			}
			Memory(m).Demand[key] = book
		}
		book.Said[name] = autoscale.Said{At: now, Span: span, D: *s}
	}
	if now.Sub(Memory(m).EpochAt) >= autoscale.Epoch {
		loop.Poke(c.Wake)
	}
}

// Decide makes the decisions of an epoch if one is over, and reports whether any is
// news. The caller has the model.
func Decide(c *core.Core, now time.Time) (news bool) {
	since := now.Sub(Memory(c.M).EpochAt)
	if len(Memory(c.M).Demand) == 0 || since >= 0 && since < autoscale.Epoch {
		return false
	}
	Memory(c.M).EpochAt = now
	for _, key := range records.SortedKeys(Memory(c.M).Demand) {
		next, goes := autoscale.DemandEpoch(c.M, key, Memory(c.M).Demand[key], now)
		old := autoscale.Memory(c.M).Wants[key]
		if goes {
			delete(Memory(c.M).Demand, key)
			delete(autoscale.Memory(c.M).Wants, key)
			news = news || old != nil
			continue
		}
		autoscale.Memory(c.M).Wants[key] = next
		if next.Warning != "" {
			c.EventRing.Note(now, event.ServiceDemand, key, next.Warning)
		}
		sc := autoscale.Table.Rows(c.M.DB)[key]
		news = news || old == nil || old.Decision.Want != next.Decision.Want || sc != nil && sc.Fits > 0 &&
			!now.Before(sc.Until)
	}
	return news
}

// UntilEpoch is how long it is to the next one; false where nobody asks for anything.
func UntilEpoch(c *core.Core, now time.Time) (time.Duration, bool) {
	return max(Memory(c.M).EpochAt.Add(autoscale.Epoch).Sub(now), 0), len(Memory(c.M).Demand) > 0
}

// Revive forgets decisions that a process before made for demand that is not there
// any more: nobody asks, so as few as may be are enough.
func Revive(c *core.Core) {
	for key := range autoscale.Table.Rows(c.M.DB) {
		if Memory(c.M).Demand[key] == nil {
			Memory(c.M).Demand[key] = &autoscale.Demand{Said: map[string]autoscale.Said{}, Scaler: scale.NewScaler(),
				From: autoscale.Table.Rows(c.M.DB)[key].Want}
		}
	}
}

// ScaleReport says how many instances of a service run here, and why.
func ScaleReport(c *core.Core, key string) (rpc.ScaleReport, error) {
	return core.View2(c, func(m *state.Model) (rpc.ScaleReport, error) {
		app, service, _ := strings.Cut(key, ".")
		out := rpc.ScaleReport{V: wire.Version, Cluster: c.ClusterName, App: app, Service: service}
		s := autoscale.Delegated(m, key)
		if s == nil && m.Far[key] == nil {
			return out, core.NoService(c.ClusterName, key)
		}
		if s != nil {
			_, ok := autoscale.BoundsOf(s)
			out.Fixed = !ok || autoscale.SiteDecides(m, key) && s.Min == s.Max
			out.Min, out.Max, out.Extra = s.Min, s.Max, s.Extra
		}
		t := m.Read()
		for _, i := range t.Instances() {
			if i.App == app && i.Service == service && !i.Draining &&
				(i.State == wire.Running || i.State == wire.WorkerScheduled) {
				out.Placed++
				if !state.Asleep(i) {
					out.Awake++
				}
			}
			if i.App == app && i.Service == service && out.Trouble == "" {
				out.Trouble = instances.Trouble(t, i)
			}
		}
		short := autoscale.Short(m, key)
		out.Short, out.Full = short.Short+short.Unmet, short.Full
		if w := autoscale.Memory(m).Wants[key]; w != nil {
			d := w.Decision
			out.Now = &d
		} else {
			out.Asked = Memory(m).Demand[key] != nil
		}
		if sc := autoscale.Table.Rows(m.DB)[key]; sc != nil {
			out.Last = sc.Last
		}
		return out, nil
	})
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	// Demand is what is asked for here, by application and service, and EpochAt when it was
	// looked at last.
	Demand  map[string]*autoscale.Demand
	EpochAt time.Time
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Demand: map[string]*autoscale.Demand{}} },
})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
