package upgrader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// upgradeLook is the time between two looks at an upgrade that goes on.
	upgradeLook = time.Second
	// upgradeAsks is how many workers are asked at a time.
	upgradeAsks = 32
)

// RunUpgrade looks after the upgrade until ctx ends. Somebody pokes c.upgrades where there
// may be something new to do.
func RunUpgrade(ctx context.Context, c *core.Core) {
	for ctx.Err() == nil {
		active, err := LookAtUpgrade(ctx, c, time.Now())
		if err != nil && ctx.Err() == nil {
			c.Logger.Error("an upgrade of the workers does not get any further, it is tried again", "error", err)
			active = true
		}
		var next <-chan time.Time
		if active {
			next = time.After(upgradeLook)
		}
		select {
		case <-ctx.Done():
		case <-c.Upgrades:
		case <-next:
		}
	}
}

// LookAtUpgrade takes the upgrade one step further. active: it goes on.
func LookAtUpgrade(ctx context.Context, c *core.Core, now time.Time) (active bool, err error) {
	s, err := core.View2(c, func(m *state.Model) (upgrades.Step, error) {
		if err := core.Reload(ctx, c, now); err != nil {
			return upgrades.Step{}, err
		}
		s := upgrades.NextStep(m, now)
		return s, KeepUpgrade(ctx, c, s.Record, s.Workers, s.Events, now)
	})
	if err != nil {
		return true, err
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, upgradeAsks)
	for name, q := range s.Asks {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			if err := askUpgrade(ctx, c, name, &q, now); err != nil {
				c.Logger.Warn("asking a worker how far its upgrade is", "worker", name, "error", err)
			}
		})
	}
	all.Wait()
	return s.Active, nil
}

// askUpgrade asks a worker how far it is, and takes the answer over.
func askUpgrade(ctx context.Context, c *core.Core, name string, q *rpc.UpgradeAsk, now time.Time) error {
	var try rpc.UpgradeTry
	err := core.AskWorker(ctx, c, name, rpc.Ask{What: rpc.AskUpgrade, Worker: name, Upgrade: q},
		"it cannot be upgraded now", &try)
	var p *wire.Problem
	switch {
	case errors.As(err, &p) && p.Code == "unknown-question":
		try = rpc.UpgradeTry{V: wire.Version, Key: q.Key, State: rpc.TryRefused,
			Why: "its version cannot be upgraded from here: verge worker upgrade, on its machine"}
	case err != nil:
		try = rpc.UpgradeTry{V: wire.Version, Key: q.Key, State: rpc.TryGoesOn, Why: err.Error()}
	}
	if err := wire.CheckVersion("what worker "+name+" says of its upgrade", try.V); err != nil {
		return err
	}
	return core.View(c, func(m *state.Model) error {
		r, said := upgrades.HeardTry(m, name, &try, now)
		if r == nil {
			return nil
		}
		e := event.WorkerUpgrade.On(event.WorkerName(c.ClusterName, name), "upgrade %.6s: %s", r.ID, said)
		return KeepUpgrade(ctx, c, nil, map[string]*upgrades.WorkerRecord{name: r}, []event.Event{e}, now)
	})
}

// KeepUpgrade stores what has changed, then it counts. The caller has the model.
func KeepUpgrade(ctx context.Context, c *core.Core, u *upgrades.Record, workers map[string]*upgrades.WorkerRecord,
	events []event.Event, now time.Time) error {
	if u == nil && len(workers) == 0 {
		return nil
	}
	t := c.M.Begin()
	if u != nil {
		upgrades.Table.Put(t.Rows, "", u)
		defer loop.Poke(c.Wake) // whether answers are counted follows from it
	}
	for name, r := range workers {
		upgrades.WorkerTable.Put(t.Rows, name, r)
	}
	if _, left, err := c.Keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return fmt.Errorf("storing how far the upgrade is: %w", cmp.Or(err, left))
	}
	c.EventRing.Own(now, events...)
	c.News.Ring()
	return nil
}

// UnderWay is a worker that is being upgraded, "" for none.
func UnderWay(m *state.Model) string {
	for _, name := range records.SortedKeys(upgrades.WorkerTable.Rows(m.DB)) {
		if r := upgrades.WorkerTable.Rows(m.DB)[name]; m.Workers[name] != nil &&
			(r.Phase == wave.Begun || r.Phase == wave.Failed && r.Undo) {
			return name
		}
	}
	return ""
}
