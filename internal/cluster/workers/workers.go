package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/check"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// OnReport takes over a worker's report.
func OnReport(ctx context.Context, c *core.Core, name string, r wire.Report) wire.ReportReply {
	return core.View(c, func(_ *state.Model) wire.ReportReply {
		return takeReport(ctx, c, name, r)
	})
}

// tryReport is OnReport of a plain report, unless somebody uses the model.
func tryReport(c *core.Core, name string, r wire.Report) (reply wire.ReportReply, ok bool) {
	ok = c.Keeper.Try(func() {
		reply = takeReport(context.Background(), c, name, r) // of a plain one nothing is stored
	})
	return reply, ok
}

// takeReport takes over a worker's report. The caller has the model.
func takeReport(ctx context.Context, c *core.Core, name string, r wire.Report) wire.ReportReply {
	reply := wire.ReportReply{V: wire.Version}
	now := time.Now()
	w := c.M.Workers[name]
	if w == nil {
		reply.Refused = fmt.Sprintf("worker %s is not registered in cluster %s: join again with a new token", name,
			c.ClusterName)
		return reply
	}
	w.Heard, w.Connected, w.Leaving = now, true, r.Leaving // whatever becomes of what it says
	w.Has = r.Have
	w.Skew.Heard(r, now)
	// What a process hears first counts when it has the status, and with it the proof of
	// what the worker has seen.
	early := !w.EverHeard && r.Status == nil
	if err := TakeAhead(ctx, c, w, r, now); err != nil {
		c.Logger.Error("a recovery cannot be begun", "worker", name, "error", err)
		reply.Refused = err.Error()
		return reply
	}
	if r.Status != nil {
		err := TakeInfo(ctx, c, w, r.Status, now)
		if errors.Is(err, errTooSoon) {
			reply.NeedStatus, err = true, nil
		}
		if err != nil {
			c.Logger.Error("taking over what a worker says about itself", "worker", name, "error", err)
			reply.Refused = err.Error()
			return reply
		}
	} else if !w.EverHeard {
		reply.NeedStatus = true
	}
	if r.Uses != nil || r.Status != nil && !w.Info.Uses && routes.Memory(c.M).Uses[name] != nil {
		err := TakeUses(ctx, c, w, r.Uses)
		if errors.Is(err, errTooSoon) {
			reply.NeedStatus, err = true, nil
		}
		if err != nil {
			c.Logger.Error("taking over what a worker uses", "worker", name, "error", err)
			reply.Refused = err.Error()
			return reply
		}
	}
	reply.Heeds = routes.Memory(c.M).Uses[name] != nil
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
			err = check.Check(&st, ch.Key)
		}
		if _, known := w.Status[ch.Key]; err == nil && !known && len(w.Status) >= state.MaxStatuses {
			err = fmt.Errorf("it has reported %d others", state.MaxStatuses)
		}
		if err != nil {
			c.Logger.Warn("a worker's status cannot be read", "worker", name, "instance", ch.Key, "error", err)
			continue
		}
		w.Status[ch.Key] = st
	}
	if over := w.Inbox.Overflow(); over != w.Over {
		w.Over = over
		if over > 0 {
			c.Logger.Warn("a worker reports more than is held of one: the rest is left out", "worker", name, "left_out",
				over)
		}
	}
	if r.Next > 0 {
		w.HeartbeatInterval = min(time.Duration(r.Next)*time.Millisecond, 2*rpc.MaxHeartbeat)
	}
	if !reply.NeedStatus && !w.EverHeard {
		w.EverHeard = true
		if !w.Suspect {
			c.HookKeeper.Event(event.WorkerBack.On(event.WorkerName(c.ClusterName, name), "reports again").By(now,
				c.M.Tier()))
		}
	}
	changed = changed || before.Inc != w.Inbox.Ack().Inc
	switch {
	case changed || len(heard) == 0 && before != w.Inbox.Ack():
		loop.Poke(c.Wake)
	case len(heard) > 0:
		pace.NoteHeard(c, heard)
	}
	if c.Heartbeat > 0 && w.HeartbeatInterval > c.Heartbeat {
		reply.Interval = int(c.Heartbeat / time.Millisecond)
	}
	// Who trusts something else has not heard of a rotation, or was away for all of
	// it; who was certified with another key was so before this one took its place.
	otherwise := w.Info.Trust != uplink.Memory(c.M).Trusts || w.Info.Issuer != "" &&
		w.Info.Issuer != uplink.Memory(c.M).Signs
	reply.Renew = uplink.Memory(c.M).Trusts != "" && otherwise && !reply.NeedStatus
	reply.NoGateway = w.Info.WantsCertificates() && !w.Gateway.May()
	reply.Want = wantOf(c, w)
	silent := c.M.Silent(name)
	if silent || early {
		reply.Want = r.Have // it keeps what it has
		loop.Poke(c.Wake)
	}
	current := reply.Want == r.Have && !silent && !early
	if current && r.Status != nil && len(r.Proof) == 0 {
		reply.Proof = DesiredOf(c, name).Proof(r.Have)
	}
	if w.Matched = w.Matched || current; current != w.Current {
		if w.Current = current; current && len(c.M.Leaving) > 0 {
			loop.Poke(c.Wake) // somebody may wait for the routers to know
		}
	}
	reply.Ack = w.Inbox.AckFor(r)
	return reply
}

// workers is the revision of a worker's desired state. While nothing was stored since it
// was looked up last it is the same: a heartbeat needs no search among all keys.
func wantOf(c *core.Core, w *state.Worker) wire.Rev {
	if stored := c.RecordStore.Rev(); !w.LookedUp || w.WantAt != stored {
		w.Want, w.WantAt, w.LookedUp = DesiredOf(c, w.Info.Name).Rev(), stored, true
	}
	return w.Want
}

// infoEvery bounds how often what a worker says about itself is stored.
const infoEvery = 500 * time.Millisecond

// errTooSoon: it is to be said again later.
var errTooSoon = errors.New("it changes too often")

// TakeInfo stores what a worker says about itself, where that is new.
func TakeInfo(ctx context.Context, c *core.Core, w *state.Worker, raw json.RawMessage, now time.Time) error {
	var info wire.WorkerInfo
	if len(raw) > check.MaxInfo {
		return fmt.Errorf("what the worker says about itself has %d bytes, at most %d are read", len(raw),
			check.MaxInfo)
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
	if err := KeepWorker(ctx, c, info.Name, rec); err != nil {
		return fmt.Errorf("storing what worker %s says about itself: %w", info.Name, err)
	}
	w.Told = now
	loop.Poke(c.Wake)
	return nil
}

// KeepWorker stores what is known of a worker. The caller has the model.
func KeepWorker(ctx context.Context, c *core.Core, name string, rec state.WorkerRecord, also ...bus.Op) error {
	t := c.M.Begin()
	t.Now = time.Now() // from when a worker that is new has time to report
	state.WorkerTable.Put(t.Rows, name, &rec)
	return c.Keeper.Whole(ctx, t, also...)
}

// OnWorker hears of a worker's connection opening or closing.
func OnWorker(c *core.Core, name string, connected bool) {
	core.Do(c, func(m *state.Model) {
		w := m.Workers[name]
		if w == nil || w.Connected == connected {
			return
		}
		w.Connected = connected
		if !connected {
			w.Closed = time.Now()
			loop.Poke(c.Wake)
		}
	})
}

// Judge decides which workers are suspect. A cluster that did not run for a
// while itself doubts itself first: it gives everybody a new chance to be heard.
// It reports whether any verdict has changed.
func Judge(c *core.Core, now time.Time) (changed bool) {
	stalled := suspicion.Stalled(now.Sub(pace.Memory(c.M).LastPass), pace.Memory(c.M).Planned, state.MinHeartbeat)
	pace.Memory(c.M).LastPass = now
	running := sync.OnceValue(c.M.Running)
	for name, w := range c.M.Workers {
		v := suspicion.Judge(now, w.Peer(), stalled)
		w.Heard = v.Heard
		if v.Suspect != w.Suspect {
			changed = true
			kind, what := event.WorkerBack, "reports again"
			if v.Suspect {
				kind = event.WorkerLost
				what = "suspect: " + v.Why
				delete(Memory(c.M).Losses, name)
				if is := running()[name]; len(is) > 0 {
					loss := &suspicion.Loss{Since: w.Heard, Cluster: c.ClusterName}
					for _, i := range is {
						loss.Add(i)
					}
					Memory(c.M).Losses[name] = loss
					what += "; " + loss.Affected()
				}
			}
			c.EventRing.Note(now, kind, event.WorkerName(c.ClusterName, name), what)
		}
		w.Suspect, w.Since = v.Suspect, v.Since
	}
	return doubt(c, now) || changed
}

// TellLosses says of workers that were not heard of what became of what ran there, once
// that is known.
func TellLosses(c *core.Core, now time.Time) {
	if len(Memory(c.M).Losses) == 0 {
		return
	}
	for _, name := range records.SortedKeys(Memory(c.M).Losses) {
		what, over := Memory(c.M).Losses[name].Over(func(id wire.InstanceID) *wire.Instance { return c.M.Insts[id] },
			now)
		if over || c.M.Workers[name] == nil {
			delete(Memory(c.M).Losses, name)
		}
		if over {
			c.EventRing.Note(now, event.WorkerLossSettled, event.WorkerName(c.ClusterName, name), what)
		}
	}
}

// doubt asks whether it is this cluster that is cut off, and not its workers: it
// hears of none, and the root does not answer either. Nothing is replaced then.
// Afterwards the silence of the workers counts anew. It reports whether anything
// has changed.
func doubt(c *core.Core, now time.Time) bool {
	silent, missed := true, false
	for _, w := range c.M.Workers {
		gone := w.Suspect && w.Impaired() == "" || !w.EverHeard
		missed = missed || gone
		silent = silent && (gone || suspicion.Quiet(now, w.Peer()))
	}
	silent = silent && missed
	if linked, _ := c.Up.Connected(); !linked {
		uplink.Memory(c.M).UpLost = now
	}
	was := Memory(c.M).Isolation.Alone()
	again := 0
	began := Memory(c.M).Isolation.Since()
	var over, cut bool
	Memory(c.M).Isolation, over, cut = Memory(c.M).Isolation.Look(now, silent,
		suspicion.Elsewhere{Answered: uplink.Memory(c.M).UpAt, Lost: uplink.Memory(c.M).UpLost})
	c.M.Alone = Memory(c.M).Isolation.Alone()
	if over {
		c.M.Waits = now
		for _, w := range c.M.Workers {
			if !w.Suspect || !cut && !w.Connected && !w.Closed.After(began) {
				continue
			}
			// As after a start.
			again++
			w.Suspect, w.Since, w.EverHeard, w.Heard = false, time.Time{}, false, now
			if cut {
				w.HeartbeatInterval = rpc.MaxHeartbeat
			}
		}
	}
	if again > 0 {
		what := fmt.Sprintf("no worker reported for a while: time for %s to report again", wire.Count(again, "worker"))
		c.EventRing.Note(now, event.ClusterIsolated, c.ClusterName, what)
	}
	if c.M.Alone && !was {
		loop.Poke(c.UpChanged) // is anybody there?
	}
	return over || c.M.Alone != was
}

// AgainWorker says how a worker joins again.
const AgainWorker = "at the cluster: verge token create --worker"

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	Isolation suspicion.Isolation
	// Losses are what the silence of workers affects, by worker, until all of that answers
	// again.
	Losses map[string]*suspicion.Loss
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Losses: map[string]*suspicion.Loss{}} },
})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// TakeAhead begins a recovery where a worker proves that it has seen a state of this
// cluster that the store has never been in, see the root's. The caller has the model.
func TakeAhead(ctx context.Context, c *core.Core, w *state.Worker, r wire.Report, now time.Time) error {
	if len(r.Proof) == 0 {
		return nil
	}
	from, ahead := DesiredOf(c, w.Info.Name).Ahead(r.Have, r.Proof)
	if !ahead {
		return nil
	}
	return uplink.BeginRecovery(ctx, c, backup.Proof{Peer: w.Info.Name, By: "worker " + w.Info.Name, Has: r.Have,
		From: from,
		Twin: w.Matched}, now)
}
