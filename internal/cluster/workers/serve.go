package workers

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/notify"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Tell brings workers what is new for them, and tells people.
func Tell(c *core.Core, t *state.Tx, now time.Time) {
	for id, places := range t.Departed {
		core.Memory(c.M).Departed.Add(id, places)
	}
	for name := range t.Nudge {
		switch w := c.M.Workers[name]; {
		case w == nil:
		case c.Notifier != nil && !c.M.Silent(name):
			c.Notifier.Tell(name, DesiredOf(c, name), w.Has)
		default:
			core.Nudge(c, name)
		}
	}
	if t.All {
		for name := range c.M.Workers {
			if !t.Nudge[name] {
				core.Nudge(c, name) // of what is new for all each fetches what it uses, in its own time
			}
		}
	}
	if len(t.Ups)+len(t.Counters)+len(rollouts.UpTable.Changes(t.Rows))+len(jobs.UpTable.Changes(t.Rows)) > 0 {
		loop.Poke(c.UpChanged)
	}
	for _, id := range records.SortedKeys(t.Insts) {
		i := t.Insts[id]
		if i == nil || len(i.History) == 0 {
			continue
		}
		last := i.History[len(i.History)-1]
		if last.At.Equal(now) {
			c.EventRing.Add(event.Step(id, last))
		}
	}
	notify.TellOf(c, t, now)
	c.EventRing.Own(now, t.Events...)
}

// DesiredOf serves what a worker should be doing.
func DesiredOf(c *core.Core, name string) exchange.Desired {
	return exchange.Desired{Store: routes.Of{Store: c.RecordStore, Worker: name}, Parts: []exchange.Part{
		{Prefix: state.KeyOrder + name + ".", As: wire.DesiredOrder},
		{Prefix: state.KeyRoute, As: wire.DesiredRoute},
		{Prefix: state.KeyRevoked, As: wire.DesiredRevoked},
		{Prefix: state.KeyFarGone, As: wire.DesiredFarRevoked},
		{Prefix: secrets.KeySealed + name + ".", As: wire.DesiredSecret},
		{Prefix: netlease.KeyNet + name + ".", As: wire.DesiredNetwork},
	}, Prove: uplink.Prove(c, name)}
}

// ServeWorkers answers the workers until stop is called.
func ServeWorkers(c *core.Core, renew func(context.Context, string, rpc.RenewRequest) (rpc.JoinReply,
	error)) (stop func(), err error) {
	u := exchange.Upper{
		Conn: c.Local, Log: c.Logger,
		Peer: func(subject string) string { return core.Token(subject, 1) },
		OnReport: func(ctx context.Context, name string, r wire.Report) wire.ReportReply {
			return OnReport(ctx, c, name, r)
		}, TryReport: func(name string, r wire.Report) (wire.ReportReply, bool) { return tryReport(c, name, r) },
		Nudge: func(name string) { core.Nudge(c, name) },
		Desired: func(name string) (exchange.Desired, bool) {
			return core.View2(c, func(m *state.Model) (exchange.Desired, bool) {
				w := m.Workers[name]
				return DesiredOf(c, name), w != nil && w.EverHeard && !m.Silent(name)
			})
		},
	}
	stopExchange, err := u.Serve("w.*.report", "w.*.fetch")
	if err != nil {
		return nil, err
	}
	stopRenewals, err := u.ServeRenewals("w.*.renew", renew)
	if err != nil {
		stopExchange()
		return nil, err
	}
	stopDemand, err := demand.ServeDemand(c)
	if err != nil {
		stopRenewals()
		stopExchange()
		return nil, err
	}
	notifier := &exchange.Notifier{
		Conn: c.Local, Log: c.Logger,
		Subject: func(name string) string { return exchange.WorkerSubjects(name).Nudge },
	}
	core.Do(c, func(*state.Model) { c.Notifier = notifier })
	return func() {
		notifier.Close()
		stopDemand()
		stopRenewals()
		stopExchange()
	}, nil
}
