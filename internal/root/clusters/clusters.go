package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/root/check"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/lifecycle"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/notify"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// TellAll brings every cluster what was stored outside a pass.
func TellAll(c *core.Core) {
	core.Do(c, func(m *state.Model) {
		t := m.Begin()
		t.All = true
		Tell(c, t, time.Now())
	})
}

// Tell brings clusters what is new for them, and tells people.
func Tell(c *core.Core, t *state.Tx, now time.Time) {
	for name, cl := range c.M.Clusters {
		if s := c.Served[name]; s.Notifier != nil && (t.All || t.Nudge[name]) {
			has := cl.Has
			if recovery.Silent(c.M, name) {
				has = wire.Rev{}
			}
			s.Notifier.Tell(name, DesiredOf(c, name), has)
		}
	}
	for _, id := range records.SortedKeys(t.Insts) {
		i := t.Insts[id]
		if i == nil || c.M.Right(i) {
			continue
		}
		for _, h := range i.History {
			if h.At.Equal(now) {
				c.EventRing.Add(event.Step(id, h))
			}
		}
	}
	for _, n := range t.Notices {
		c.HookKeeper.Tell(n)
	}
	c.EventRing.Own(now, t.Events...)
}

// Judge decides which clusters are suspect. A root that did not run for a while
// itself doubts itself first. It reports whether any verdict has changed.
func Judge(c *core.Core, now time.Time) (changed bool) {
	stalled := suspicion.Stalled(now.Sub(c.LastPass), c.Planned, state.MinReportInterval)
	c.LastPass = now
	for name, cl := range c.M.Clusters {
		v := suspicion.Judge(now, cl.Peer(), stalled)
		cl.Heard = v.Heard
		if v.Suspect != cl.Suspect {
			changed = true
			kind, what := event.ClusterBack, "reports again"
			if v.Suspect {
				kind, what = event.ClusterLost, "away: "+v.Why
				counters.Lose(cl, now)
			}
			c.EventRing.Note(now, kind, name, what)
		}
		cl.Suspect, cl.Since = v.Suspect, v.Since
	}
	return doubt(c, now) || changed
}

// doubt asks whether it is this root that is cut off, and not its clusters: it
// hears of none. Then nothing of them is replaced, and afterwards their absence
// counts anew: their links do not come back at the same moment. Where there is one
// cluster only, there is nobody to replace anything. It reports whether that has
// changed.
func doubt(c *core.Core, now time.Time) bool {
	silent, missed := len(c.M.Clusters) > 1, false
	for _, cl := range c.M.Clusters {
		missed = missed || cl.Suspect
		silent = silent && (cl.Suspect || suspicion.Quiet(now, cl.Peer()))
	}
	silent = silent && missed
	was := c.Isolation.Alone()
	var over bool
	c.Isolation, over, _ = c.Isolation.Look(now, silent, suspicion.Elsewhere{})
	c.M.Alone = c.Isolation.Alone()
	if over {
		for _, cl := range c.M.Clusters {
			if cl.Suspect {
				cl.Heard, cl.Since = now, now
			}
		}
		c.EventRing.Note(now, event.RootIsolated, "", "no longer cut off: the clusters have time to be heard again")
	}
	return over || c.M.Alone != was
}

// DesiredOf serves what a cluster should be running.
func DesiredOf(c *core.Core, name string) exchange.Desired {
	return exchange.Desired{Store: c.RecordStore, Parts: []exchange.Part{
		{Prefix: state.KeyShare + name + ".", As: wire.DesiredShare},
		{Prefix: state.KeyRoute, As: wire.DesiredRoute},
		{Prefix: state.KeyRevoked, As: wire.DesiredRevoked},
		{Prefix: namespaces.KeyPublish, As: wire.DesiredPublish},
		{Prefix: secrets.KeySealed + name + ".", As: wire.DesiredSecret},
		{Prefix: state.KeyLease + name + ".", As: wire.DesiredLease},
	}, Prove: Prove(c, name)}
}

// Serve answers the reports of a cluster until the core is stopped. It is called outside core.Do.
func Serve(c *core.Core, name string) error {
	conn, err := c.LinkTo(name)
	if err != nil {
		return fmt.Errorf("connecting to the account of cluster %s: %w", name, err)
	}
	u := exchange.Upper{
		Conn: conn, Log: c.Logger,
		Peer: func(string) string { return name }, // the account is the identity
		OnReport: func(ctx context.Context, name string, r wire.Report) wire.ReportReply {
			return OnReport(ctx, c, name, r)
		},
		Desired: func(name string) (exchange.Desired, bool) {
			return core.View2(c, func(m *state.Model) (exchange.Desired, bool) {
				cl := m.Clusters[name]
				return DesiredOf(c, name), cl != nil && cl.EverHeard && !recovery.Silent(m, name)
			})
		},
	}
	s := exchange.ClusterSubjects()
	stopExchange, err := u.Serve(s.Report, s.Fetch)
	if err != nil {
		return err
	}
	stopRenewals, err := serveRenewals(c, &u)
	if err != nil {
		stopExchange()
		return err
	}
	stopGates, err := u.ServeGates(s.Gate,
		func(ctx context.Context, cluster string, q wire.HookData) ([]string, error) {
			return notify.AskWave(ctx, c, cluster, q)
		})
	if err != nil {
		stopRenewals()
		stopExchange()
		return err
	}
	notifier := &exchange.Notifier{
		Conn: conn, Log: c.Logger,
		Subject: func(string) string { return exchange.ClusterSubjects().Nudge },
	}
	stop := func() {
		notifier.Close()
		stopGates()
		stopRenewals()
		stopExchange()
	}
	core.Do(c, func(*state.Model) { c.Served[name] = core.Serving{Notifier: notifier, Stop: stop} })
	return nil
}

// StopServingAll ends what Serve began, for all clusters.
func StopServingAll(c *core.Core) {
	for _, s := range core.View(c, func(*state.Model) map[string]core.Serving {
		all := c.Served
		c.Served = map[string]core.Serving{}
		return all
	}) {
		s.Stop()
	}
}

// OnReport takes over a cluster's report.
func OnReport(ctx context.Context, c *core.Core, name string, r wire.Report) wire.ReportReply {
	reply := wire.ReportReply{V: wire.Version}
	if c.Heard != nil {
		c.Heard()
	}
	now := time.Now()
	return core.View(c, func(m *state.Model) wire.ReportReply {
		cl := m.Clusters[name]
		if cl == nil {
			reply.Refused = "cluster " + name + " is not registered here: join again with a new token"
			return reply
		}
		// What a process hears first counts when it has the status, and with it the proof of
		// what the cluster has seen.
		early := !cl.EverHeard && r.Status == nil
		cl.Has = r.Have
		if err := takeAhead(ctx, c, cl, r, now); err != nil {
			c.Logger.Error("a recovery cannot be begun", "cluster", name, "error", err)
			reply.Refused = err.Error()
			return reply
		}
		changed := !cl.EverHeard || cl.Suspect
		if r.Status != nil {
			var agg wire.Aggregate
			if err := check.DecodeAggregate(r.Status, &agg); err != nil {
				c.Logger.Warn("a cluster's aggregate cannot be read", "cluster", name, "error", err)
			} else {
				changed = true
				netlease.CheckNeed(agg.Network, name)
				agg.Short, agg.Entering = overflow.CheckShort(agg.Short), placement.CheckEntering(agg.Entering)
				agg.Objects = agg.Objects[:min(len(agg.Objects), wire.MaxObjectMarks*len(wire.ObjectMark{}))]
				cl.Aggregate = &agg
			}
		}
		reply.NeedStatus = cl.Aggregate == nil
		reply.Renew = c.Trusts != "" && cl.Aggregate != nil && cl.Aggregate.Trust != c.Trusts
		before := cl.Inbox.Ack()
		for _, ch := range cl.Inbox.Accept(r) {
			changed = true
			if err := Take(c, cl, ch, now); err != nil {
				c.Logger.Warn("a report about an instance cannot be read", "cluster", name, "instance", ch.Key, "error",
					err)
			}
		}
		core.SayBatch(c)
		tellLost(c, cl, now)
		if over := cl.Inbox.Overflow(); over != cl.Over {
			cl.Over = over
			if over > 0 {
				c.Logger.Warn("a cluster reports more than is held of one: the rest is left out", "cluster", name,
					"left_out", over)
			}
		}
		if !cl.EverHeard {
			c.HookKeeper.Event(event.ClusterBack.On(name, "reports again").By(now, state.Tier))
		}
		cl.Heard, cl.Connected, cl.EverHeard = now, true, true
		cl.Skew.Heard(r, now)
		if r.Next > 0 {
			cl.Interval = min(time.Duration(r.Next)*time.Millisecond, 2*state.MaxReportInterval)
		}
		desired := DesiredOf(c, name)
		reply.Want = desired.Rev()
		reply.Ack = cl.Inbox.AckFor(r)
		if r.From.IsZero() && !r.To.IsZero() && !before.IsZero() && before != r.To {
			reply.Was = before
		}
		silent := recovery.Silent(m, name) || early
		if silent {
			reply.Want = r.Have // it keeps what it has
		}
		if r.Status != nil && reply.Want == r.Have && !silent && len(r.Proof) == 0 {
			reply.Proof = desired.Proof(r.Have)
		}
		if recovery.Unasked(m, name) && cl.Held == nil {
			loop.Poke(c.AskWake)
		}
		current := reply.Want == r.Have && !silent
		if cl.Matched = cl.Matched || current; current != cl.Current {
			cl.Current, changed = current, true
		}
		if changed || before != cl.Inbox.Ack() {
			loop.Poke(c.Wake)
		}
		return reply
	})
}

// Take takes over one change of what a cluster reports, and tells people.
func Take(c *core.Core, cl *state.Cluster, ch wire.Change, now time.Time) error {
	if strings.HasPrefix(ch.Key, wire.ReportedRevoked) {
		return TakeRevoked(cl, ch)
	}
	if ok, err := takeLocal(c, cl, ch, now); ok {
		return err
	}
	if ok, err := counters.Take(cl, ch); ok {
		return err
	}
	rollout, job := strings.TrimPrefix(ch.Key, wire.ReportedRollout), strings.TrimPrefix(ch.Key, wire.ReportedJob)
	wasRollout, wasJob := cl.Rollouts[rollout], cl.Jobs[job]
	if ok, err := rollouts.Take(cl, ch); ok {
		notify.TellRollout(c, cl, rollout, wasRollout)
		return err
	}
	if ok, err := jobs.Take(cl, ch); ok {
		notify.TellJob(c, cl, job, wasJob)
		return err
	}
	old := cl.Seen[ch.Key]
	if ch.Deleted {
		delete(cl.Seen, ch.Key)
		if old != nil {
			core.Say(c, now, cl, event.InstanceGone.On(ch.Key, "gone"))
			notify.TellStandIn(c, old, now)
		}
		return nil
	}
	var rep wire.Reported
	if err := json.Unmarshal(ch.Value, &rep); err != nil {
		return err
	}
	if err := check.Check(&rep, ch.Key); err != nil {
		return err
	}
	rep.Cluster = cl.Name // its identity is the account it used, not what it says
	cl.Seen[ch.Key] = &rep
	for n, h := range rep.History {
		if n > 0 && (old == nil || h.At.After(old.Since)) { // the first repeats the root's last
			c.Batch = append(c.Batch, event.Step(rep.ID, h))
		}
	}
	notify.TellReported(c, &rep, func(at time.Time) bool { return cl.EverHeard && (old == nil || at.After(old.Since)) })
	if old != nil {
		for _, news := range wire.SecretNews(rep.ID, old.Secrets, rep.Secrets) {
			core.Say(c, now, cl, event.InstanceSecret.On(rep.ID, "%s", news))
		}
	}
	if old != nil {
		if rep.Unreachable && !old.Unreachable && rep.State == wire.Running {
			lifecycle.NoteLoss(cl, &rep.Instance, now)
		}
		core.Say(c, now, cl, life.News(&old.Instance, &rep.Instance)...)
	}
	return nil
}

// OnLink hears of a cluster's link opening or closing.
func OnLink(c *core.Core, name string, up bool) {
	core.Do(c, func(m *state.Model) {
		if cl := m.Clusters[name]; cl != nil && cl.Connected != up {
			cl.Connected = up
			if !up {
				loop.Poke(c.Wake)
			}
		}
	})
}

// AgainCluster says how a cluster joins again.
func AgainCluster(name string) string { return "at the root: verge token create --cluster " + name }
