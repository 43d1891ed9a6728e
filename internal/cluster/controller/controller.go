package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/deschedule"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/notify"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/wire"
)

// Init loads the model from the store, which is open: from now on workers get time to report.
func Init(ctx context.Context, c *core.Core, details bool, now time.Time) (err error) {
	c.Wake, c.UpChanged, c.Surveys = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	c.Upgrades = make(chan struct{}, 1)
	c.AskCtx, c.EndAsking = context.WithCancel(context.WithoutCancel(ctx))
	c.M = state.NewModel(c.ClusterName, details, now)
	c.M.Site = c.SiteInfo
	if secrets.VaultOf(c.M).Key = c.Key; c.Key != nil {
		if c.Prover, err = c.Key.Prover(reconcile.ProofOf); err != nil {
			return err
		}
	}
	c.Reloaded = func() { notify.Told(c) }
	c.Keeper.Store = c.RecordStore
	pace.Memory(c.M).LastPass, pace.Memory(c.M).Planned = now, loop.Tick
	uplink.Memory(c.M).UpErr = errors.New("not connected yet")
	if err = core.Read(ctx, c.M, c.RecordStore, now); err != nil {
		return err
	}
	core.Hold(c)
	if core.Memory(c.M).Held { // before anybody else has the store
		c.RecordStore = records.Hold(c.RecordStore, records.Held(c.M.Unread))
		c.Keeper.Store = c.RecordStore
	}
	proximity.RecallMoves(c.M, now)
	demand.Revive(c)
	uplink.Memory(c.M).Lost = uplink.Lost{At: now, Was: c.M.Counted()}
	c.Revoked.Set(c.M.Revoked())
	core.Place(c)
	return nil
}

// Loops are the control loop of a cluster and that of its fast path.
func Loops(c *core.Core) (passes, fast *loop.Loop) {
	return &loop.Loop{
			Wake: c.Wake, Log: c.Logger,
			Pass: func(ctx context.Context, now time.Time, changed bool) (bool, error) {
				return Pass(ctx, c, now, changed)
			},
			Pause: func(settled bool) time.Duration { return Pause(c, settled) },
			Rest:  func() time.Duration { return Rest(c) },
		}, &loop.Loop{
			Wake: c.HeardWake, Log: c.Logger,
			Pass: func(ctx context.Context, now time.Time, changed bool) (bool, error) {
				return FastPath(ctx, c, now, changed)
			},
			Pause: func(settled bool) time.Duration { return FastPathPause(c, settled) },
			Rest:  func() time.Duration { return FastPathRest(c) },
		}
}

// Pause is the time to the next look: until a worker could be suspect where
// nothing else waits, a tick where something does, or less where an instance is
// to be replaced before that.
func Pause(c *core.Core, settled bool) (d time.Duration) {
	return core.View(c, func(m *state.Model) (d time.Duration) { return pause(c, m, settled) })
}

// pause is Pause with the model.
func pause(c *core.Core, m *state.Model, settled bool) (d time.Duration) {
	defer func() { pace.Memory(m).Planned = d }()
	now, least := time.Now(), loop.Tick
	if next, ok := demand.UntilEpoch(c, now); ok {
		defer func() { d = min(d, next) }()
	}
	if next, ok := jobs.Memory(m).Timer.Until(now); ok {
		defer func() { d = min(d, next) }()
	}
	if settled {
		return suspicion.NextLook(now, loop.Tick, func(yield func(suspicion.Peer) bool) {
			for _, w := range m.Workers {
				if !yield(w.Peer()) {
					return
				}
			}
		})
	}
	if d := proximity.UntilDecided(m, now); d > 0 {
		least = min(least, d)
	}
	if d := rollouts.UntilRolled(m, now); d > 0 {
		least = min(least, d)
	}
	for id := range m.Leaving {
		if d := m.Insts[id].Leaving.Started.Add(moving.LeaveAfter).Sub(now); d > 0 {
			least = min(least, d)
		}
	}
	for _, i := range m.Insts {
		w := m.Workers[i.Worker]
		if w == nil || !w.Suspect || (i.State != wire.Running && i.State != wire.WorkerScheduled) {
			continue
		}
		if d := w.Since.Add(m.ReplaceAfter(i, w)).Sub(now); d > 0 {
			least = min(least, d)
		}
	}
	return least
}

// Pass judges the workers and, if that or anything else (changed) has changed,
// brings the cluster closer to what it should be until there is nothing left to
// do at this moment. settled: nothing is waiting for time to pass.
func Pass(ctx context.Context, c *core.Core, now time.Time, changed bool) (settled bool, err error) {
	return core.View2(c, func(m *state.Model) (settled bool, err error) { return pass(ctx, c, m, now, changed) })
}

// pass is Pass with the model.
func pass(ctx context.Context, c *core.Core, m *state.Model, now time.Time, changed bool) (settled bool, err error) {
	if core.Memory(m).Held {
		return true, nil
	}
	judged, decided, told := workers.Judge(c, now), demand.Decide(c, now), proximity.Memory(m).Entering
	changed = changed || jobs.Memory(m).Timer.Due(now)
	changed = lookPorts(c, m) || changed
	led := deschedule.LookFlows(m, now)
	if !slices.Equal(told, proximity.Memory(m).Entering) {
		uplink.Memory(m).SumSaid = false // though nothing was stored
	}
	if !judged && !decided && !led && !changed {
		return true, nil
	}
	defer c.News.Ring()
	if decided {
		loop.Poke(c.UpChanged) // the root may be told that something is lacking
	}
	if err := core.Reload(ctx, c, now); err != nil {
		return false, err
	}
	if err := uplink.FollowRoot(ctx, c, now); err != nil {
		return false, err
	}
	pace.Memory(m).HeardOf, pace.Memory(m).Owed, pace.Memory(m).Passed, pace.Memory(m).Stepped = nil, false,
		now, 0
	rollouts.Memory(m).Gates = c.HookKeeper.Gates(wire.GateWave)
	proximity.LookNear(m, now)
	if len(proximity.Memory(m).Near.Since) > 0 {
		loop.Poke(c.Surveys)
	}
	for range rehearsal.MaxRounds {
		begin := time.Now()
		m.Recovery.Stored = c.RecordStore.Rev()
		t := reconcile.Step(m, now)
		pace.Memory(m).Stepped += time.Since(begin)
		// What cannot be decided: what is sealed, and what is signed.
		secrets.VaultOf(m).Seal(ctx, t, c.RecordStore, c.Logger)
		netlease.In(t).Sign(c.Sign, c.Logger)
		stored, left, err := c.Keeper.Parts(ctx, t)
		core.Unwritten(c, left, now)
		if err != nil {
			return false, fmt.Errorf("storing what was decided: %w", err)
		}
		consult.Consult(c, t)
		notify.AskWaves(c, t)
		if !stored {
			break
		}
		workers.Tell(c, t, now)
	}
	if c.Ports != nil {
		c.Ports.Publish(m.Name, fleet.PortsHeld(m))
	}
	workers.TellLosses(c, now)
	m.Recovery.Settled = !m.Unasked(state.TheRoot)
	jobs.Memory(m).Timer = jobs.NextTimer(m, now)
	pace.Memory(m).Steady = reconcile.Steady(m)
	return Calm(c) && m.Mark() == nil, nil
}

// Calm reports whether no instance waits for a deadline. A worker that is away is nothing to wait for
// when what it ran is elsewhere: its return is heard of.
func Calm(c *core.Core) bool {
	for key, sc := range autoscale.Table.Rows(c.M.DB) {
		if sc.Fits > 0 && demand.Memory(c.M).Demand[key] == nil {
			return false // there may be room again, and no epoch will ask
		}
	}
	if rollouts.BusyRolling(c.M) {
		return false
	}
	t := c.M.Read()
	for _, i := range c.M.Insts {
		if i.State != wire.Running && i.State != wire.Terminated && !state.Asleep(i) &&
			!jobs.Memory(c.M).Timer.Rest[i.ID] || i.Leaving != nil {
			return false
		}
		if i.Pinned == "" && c.M.Away(i.Worker) || i.Moving != nil && c.M.Away(i.Moving.Worker) {
			return false // it is replaced after a while
		}
		if len(i.Avoid) > 0 && c.M.Workers[i.Worker].Draining() {
			return false // it may be forgiven where it failed
		}
		if i.Ordinal >= wire.LocalOrdinals && !i.Draining && !instances.Wanted(t, i) {
			return false // it hands over, for a while
		}
	}
	return true
}

// lookPorts takes over what other clusters hold; true if that is something else.
func lookPorts(c *core.Core, m *state.Model) bool {
	if c.Ports == nil {
		return false
	}
	now := c.Ports.Others(m.Name)
	if maps.Equal(now, fleet.Memory(m).OtherPorts) {
		return false
	}
	fleet.Memory(m).OtherPorts = now
	return true
}
