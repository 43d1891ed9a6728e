package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// token is the n-th token of a subject.
func token(subject string, n int) string {
	for ; n > 0; n-- {
		_, rest, more := strings.Cut(subject, ".")
		if !more {
			return ""
		}
		subject = rest
	}
	first, _, _ := strings.Cut(subject, ".")
	return first
}

// onReport takes over a worker's report.
func (c *core) onReport(ctx context.Context, name string, r wire.Report) wire.ReportReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeReport(ctx, name, r)
}

// tryReport is onReport of a plain report, unless the mutex is taken.
func (c *core) tryReport(name string, r wire.Report) (wire.ReportReply, bool) {
	if !c.mu.TryLock() {
		return wire.ReportReply{}, false
	}
	defer c.mu.Unlock()
	return c.takeReport(context.Background(), name, r), true // of a plain one nothing is stored
}

// takeReport takes over a worker's report. The mutex is held.
func (c *core) takeReport(ctx context.Context, name string, r wire.Report) wire.ReportReply {
	reply := wire.ReportReply{V: wire.Version}
	now := time.Now()
	w := c.m.Workers[name]
	if w == nil {
		reply.Refused = fmt.Sprintf("worker %s is not registered in cluster %s: join again with a new token", name, c.name)
		return reply
	}
	w.Heard, w.Connected, w.Leaving = now, true, r.Leaving // whatever becomes of what it says
	w.Has = r.Have
	w.Skew.Heard(r, now)
	// What a process hears first counts when it has the status, and with it the proof of
	// what the worker has seen.
	early := !w.EverHeard && r.Status == nil
	if err := c.heedAhead(ctx, w, r, now); err != nil {
		c.log.Error("a recovery cannot be begun", "worker", name, "error", err)
		reply.Refused = err.Error()
		return reply
	}
	if r.Status != nil {
		err := c.takeInfo(ctx, w, r.Status, now)
		if errors.Is(err, errTooSoon) {
			reply.NeedStatus, err = true, nil
		}
		if err != nil {
			c.log.Error("taking over what a worker says about itself", "worker", name, "error", err)
			reply.Refused = err.Error()
			return reply
		}
	} else if !w.EverHeard {
		reply.NeedStatus = true
	}
	if r.Uses != nil || r.Status != nil && !w.Info.Uses && c.m.uses[name] != nil {
		err := c.takeUses(ctx, w, r.Uses)
		if errors.Is(err, errTooSoon) {
			reply.NeedStatus, err = true, nil
		}
		if err != nil {
			c.log.Error("taking over what a worker uses", "worker", name, "error", err)
			reply.Refused = err.Error()
			return reply
		}
	}
	reply.Heeds = c.m.uses[name] != nil
	changed := !w.EverHeard || w.Suspect
	var heard []wire.InstanceID
	before := w.Inbox.Ack()
	for _, ch := range w.Inbox.Accept(r) {
		if ch.Deleted {
			changed = true
			delete(w.Status, ch.Key)
			continue
		}
		heard = append(heard, ch.Key)
		var st wire.InstanceStatus
		err := json.Unmarshal(ch.Value, &st)
		if err == nil {
			err = check(&st, ch.Key)
		}
		if _, known := w.Status[ch.Key]; err == nil && !known && len(w.Status) >= state.MaxStatuses {
			err = fmt.Errorf("it has reported %d others", state.MaxStatuses)
		}
		if err != nil {
			c.log.Warn("a worker's status cannot be read", "worker", name, "instance", ch.Key, "error", err)
			continue
		}
		w.Status[ch.Key] = st
	}
	if over := w.Inbox.Overflow(); over != w.Over {
		w.Over = over
		if over > 0 {
			c.log.Warn("a worker reports more than is held of one: the rest is left out", "worker", name, "left_out", over)
		}
	}
	if r.Next > 0 {
		w.HeartbeatInterval = min(time.Duration(r.Next)*time.Millisecond, 2*state.MaxHeartbeat)
	}
	if !reply.NeedStatus && !w.EverHeard {
		w.EverHeard = true
		if !w.Suspect {
			c.tellWorker(wire.HookWorkerBack, name, hooks.NodeBack, "heard of again", now)
		}
	}
	changed = changed || before.Inc != w.Inbox.Ack().Inc
	switch {
	case changed || len(heard) == 0 && before != w.Inbox.Ack():
		loop.Poke(c.wake)
	case len(heard) > 0:
		c.noteHeard(heard)
	}
	if c.lambda > 0 && w.HeartbeatInterval > c.lambda {
		reply.Interval = int(c.lambda / time.Millisecond)
	}
	// Who trusts something else has not heard of a rotation, or was away for all of
	// it; who was certified with another key was so before this one took its place.
	otherwise := w.Info.Trust != c.trusts || w.Info.Issuer != "" && w.Info.Issuer != c.signs
	reply.Renew = c.trusts != "" && otherwise && !reply.NeedStatus
	reply.NoGateway = w.Info.WantsCertificates() && !w.Gateway.May()
	reply.Want = c.wantOf(w)
	silent := c.m.Silent(name)
	if silent || early {
		reply.Want = r.Have // it keeps what it has
		loop.Poke(c.wake)
	}
	current := reply.Want == r.Have && !silent && !early
	if current && r.Status != nil && len(r.Proof) == 0 {
		reply.Proof = c.desiredOf(name).Proof(r.Have)
	}
	if w.Matched = w.Matched || current; current != w.Current {
		if w.Current = current; current && len(c.m.Leaving) > 0 {
			loop.Poke(c.wake) // somebody may wait for the routers to know
		}
	}
	reply.Ack = w.Inbox.AckFor(r)
	return reply
}

// wantOf is the revision of a worker's desired state. While nothing was stored since it
// was looked up last it is the same: a heartbeat needs no search among all keys.
func (c *core) wantOf(w *state.Worker) wire.Rev {
	if stored := c.store.Rev(); !w.LookedUp || w.WantAt != stored {
		w.Want, w.WantAt, w.LookedUp = c.desiredOf(w.Info.Name).Rev(), stored, true
	}
	return w.Want
}

// infoEvery bounds how often what a worker says about itself is stored.
const infoEvery = 500 * time.Millisecond

// errTooSoon: it is to be said again later.
var errTooSoon = errors.New("it changes too often")

// takeInfo stores what a worker says about itself, where that is new.
func (c *core) takeInfo(ctx context.Context, w *state.Worker, raw json.RawMessage, now time.Time) error {
	var info wire.WorkerInfo
	if len(raw) > maxInfo {
		return fmt.Errorf("what the worker says about itself has %d bytes, at most %d are read", len(raw), maxInfo)
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return fmt.Errorf("what the worker says about itself cannot be read: %w", err)
	}
	info.Devices = wire.CleanDevices(info.Devices)
	info.Name = w.Info.Name // its identity is the subject it used, not what it says
	if records.Same(info, w.Info) {
		return nil
	}
	if now.Sub(w.Told) < infoEvery {
		return errTooSoon
	}
	rec := w.WorkerRecord
	rec.Info = info
	if err := c.keepWorker(ctx, info.Name, rec); err != nil {
		return fmt.Errorf("storing what worker %s says about itself: %w", info.Name, err)
	}
	w.Told = now
	loop.Poke(c.wake)
	return nil
}

// keepWorker stores what is known of a worker. The mutex is held.
func (c *core) keepWorker(ctx context.Context, name string, rec state.WorkerRecord, also ...bus.Op) error {
	t := c.m.begin()
	t.Now = time.Now() // from when a worker that is new has time to report
	state.WorkerTable.Put(t.Rows, name, &rec)
	return c.keeper.Whole(ctx, t, also...)
}

// onWorker hears of a worker's connection opening or closing.
func (c *core) onWorker(name string, connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.m.Workers[name]
	if w == nil || w.Connected == connected {
		return
	}
	w.Connected = connected
	if !connected {
		w.Closed = time.Now()
		loop.Poke(c.wake)
	}
}

// judge decides which workers are suspect. A cluster that did not run for a
// while itself doubts itself first: it gives everybody a new chance to be heard.
// It reports whether any verdict has changed.
func (c *core) judge(now time.Time) (changed bool) {
	stalled := life.Stalled(now.Sub(c.lastPass), c.planned, state.MinHeartbeat)
	c.lastPass = now
	running := sync.OnceValue(c.m.Running)
	for name, w := range c.m.Workers {
		v := life.Judge(now, w.Peer(), stalled)
		w.Heard = v.Heard
		if v.Suspect != w.Suspect {
			changed = true
			what := "heard of again"
			if v.Suspect {
				what = "suspect: " + v.Why
				delete(c.losses, name)
				if is := running()[name]; len(is) > 0 {
					loss := &life.Loss{Since: w.Heard, Cluster: c.name}
					for _, i := range is {
						loss.Add(i)
					}
					c.losses[name] = loss
					what += "; " + loss.Affected()
				}
			}
			kind, position := wire.HookWorkerBack, hooks.NodeBack
			if v.Suspect {
				kind, position = wire.HookWorkerLost, hooks.NodeLost
			}
			c.tellWorker(kind, name, position, what, now)
			c.events.Add(now, c.m.Tier(), "worker/"+c.name+"/"+name, what)
			c.log.Info("worker "+what, "worker", name)
		}
		w.Suspect, w.Since = v.Suspect, v.Since
	}
	return c.doubt(now) || changed
}

// tellLosses says of workers that were not heard of what became of what ran there, once
// that is known.
func (c *core) tellLosses(now time.Time) {
	if len(c.losses) == 0 {
		return
	}
	for _, name := range records.SortedKeys(c.losses) {
		what, over := c.losses[name].Over(func(id wire.InstanceID) *wire.Instance { return c.m.Insts[id] }, now)
		if over || c.m.Workers[name] == nil {
			delete(c.losses, name)
		}
		if over {
			c.events.Add(now, c.m.Tier(), "worker/"+c.name+"/"+name, what)
			c.log.Info(what, "worker", name)
		}
	}
}

// doubt asks whether it is this cluster that is cut off, and not its workers: it
// hears of none, and the root does not answer either. Nothing is replaced then.
// Afterwards the silence of the workers counts anew. It reports whether anything
// has changed.
func (c *core) doubt(now time.Time) bool {
	silent, missed := true, false
	for _, w := range c.m.Workers {
		gone := w.Suspect && w.Impaired() == "" || !w.EverHeard
		missed = missed || gone
		silent = silent && (gone || life.Quiet(now, w.Peer()))
	}
	silent = silent && missed
	if linked, _ := c.up.Connected(); !linked {
		c.upLost = now
	}
	was := c.isolation.Alone()
	again := 0
	began := c.isolation.Since()
	var over, cut bool
	c.isolation, over, cut = c.isolation.Look(now, silent, life.Elsewhere{Answered: c.upAt, Lost: c.upLost})
	c.m.Alone = c.isolation.Alone()
	if over {
		c.m.Waits = now
		for _, w := range c.m.Workers {
			if !w.Suspect || !cut && !w.Connected && !w.Closed.After(began) {
				continue
			}
			// As after a start.
			again++
			w.Suspect, w.Since, w.EverHeard, w.Heard = false, time.Time{}, false, now
			if cut {
				w.HeartbeatInterval = state.MaxHeartbeat
			}
		}
	}
	if again > 0 {
		what := fmt.Sprintf("heard of nobody for a while: time for %s to be heard again", wire.Count(again, "worker"))
		c.events.Add(now, c.m.Tier(), "cluster/"+c.name, what)
		c.log.Info(what)
	}
	if c.m.Alone && !was {
		loop.Poke(c.upChanged) // is anybody there?
	}
	return over || c.m.Alone != was
}
