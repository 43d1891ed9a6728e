package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// upgradeLook is the time between two looks at an upgrade that goes on.
	upgradeLook = time.Second
	// upgradeAsks is how many workers are asked at a time.
	upgradeAsks = 32
)

// runUpgrade looks after the upgrade until ctx ends. Somebody pokes c.upgrades where there
// may be something new to do.
func (c *core) runUpgrade(ctx context.Context) {
	for ctx.Err() == nil {
		active, err := c.lookAtUpgrade(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			c.log.Error("an upgrade of the workers does not get any further, it is tried again", "error", err)
			active = true
		}
		var next <-chan time.Time
		if active {
			next = time.After(upgradeLook)
		}
		select {
		case <-ctx.Done():
		case <-c.upgrades:
		case <-next:
		}
	}
}

// lookAtUpgrade takes the upgrade one step further. active: it goes on.
func (c *core) lookAtUpgrade(ctx context.Context, now time.Time) (active bool, err error) {
	c.mu.Lock()
	if err := c.reload(ctx, now); err != nil {
		c.mu.Unlock()
		return true, err
	}
	s := c.m.stepUpgrade(now)
	err = c.keepUpgrade(ctx, s.record, s.workers, s.events, now)
	c.mu.Unlock()
	if err != nil {
		return true, err
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, upgradeAsks)
	for name, q := range s.asks {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			if err := c.askUpgrade(ctx, name, &q, now); err != nil {
				c.log.Warn("asking a worker how far its upgrade is", "worker", name, "error", err)
			}
		})
	}
	all.Wait()
	return s.active, nil
}

// askUpgrade asks a worker how far it is, and takes the answer over.
func (c *core) askUpgrade(ctx context.Context, name string, q *wire.UpgradeAsk, now time.Time) error {
	var try wire.UpgradeTry
	err := c.askWorker(ctx, name, wire.Ask{What: wire.AskUpgrade, Worker: name, Upgrade: q}, "it cannot be upgraded now", &try)
	var p *wire.Problem
	switch {
	case errors.As(err, &p) && p.Code == "unknown-question":
		try = wire.UpgradeTry{V: wire.Version, Key: q.Key, State: wire.TryRefused, Why: "its version cannot be upgraded from here: verge worker upgrade, on its machine"}
	case err != nil:
		try = wire.UpgradeTry{V: wire.Version, Key: q.Key, State: wire.TryGoesOn, Why: err.Error()}
	}
	if err := wire.CheckVersion("what worker "+name+" says of its upgrade", try.V); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, said := c.m.heardTry(name, &try, now)
	if r == nil {
		return nil
	}
	e := state.Event{Subject: "worker/" + c.name + "/" + name, What: fmt.Sprintf("upgrade %.6s: %s", r.ID, said)}
	return c.keepUpgrade(ctx, nil, map[string]*upgradedRecord{name: r}, []state.Event{e}, now)
}

// keepUpgrade stores what has changed, then it counts. The mutex is held.
func (c *core) keepUpgrade(ctx context.Context, u *upgradeRecord, workers map[string]*upgradedRecord, events []state.Event, now time.Time) error {
	if u == nil && len(workers) == 0 {
		return nil
	}
	t := c.m.begin()
	if u != nil {
		upgradeTable.Put(t.Rows, "", u)
		defer loop.Poke(c.wake) // whether answers are counted follows from it
	}
	for name, r := range workers {
		upgradedTable.Put(t.Rows, name, r)
	}
	if _, left, err := c.keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return fmt.Errorf("storing how far the upgrade is: %w", cmp.Or(err, left))
	}
	for _, e := range events {
		c.events.Add(now, c.m.Tier(), e.Subject, e.What)
		c.log.Info(e.What, "about", e.Subject)
	}
	c.news.Ring()
	return nil
}

// upgrade of the workers; nil where there was none.
func (m *model) upgrade() *upgradeRecord { return upgradeTable.One(m.DB) }

// Upgrade implements rest.Backend.
func (b backend) Upgrade(ctx context.Context) (wire.UpgradeView, error) {
	b.mu.Lock()
	v := b.m.upgradeView(time.Now())
	b.mu.Unlock()
	b.viewSpare(ctx, &v)
	return v, nil
}

// StartUpgrade implements rest.Backend.
func (b backend) StartUpgrade(ctx context.Context, q wire.UpgradeRequest) (wire.UpgradeView, error) {
	if err := q.Fill(); err != nil {
		return wire.UpgradeView{}, wire.Problemf(422, "invalid-request", "verge upgrade start --help", "the upgrade was not begun", "%v", err)
	}
	b.programs.Lock()
	defer b.programs.Unlock()
	for i := range q.Programs {
		p := &q.Programs[i]
		v, body, err := b.GetObject(ctx, wire.ProgramsNamespace, p.Object())
		if err == nil {
			err = body.Close()
		}
		if err == nil && (strings.TrimPrefix(v.Digest, "sha256:") != p.SHA256 || v.Size != p.Size) {
			err = fmt.Errorf("%s is another file: %s, %d bytes", p.Object(), v.Digest, v.Size)
		}
		if err != nil {
			return wire.UpgradeView{}, wire.Problemf(409, "no-program", "verge upgrade start puts it there", "the upgrade was not begun", "the program for %s/%s is not in the cluster: %v", p.OS, p.Arch, err)
		}
	}
	return b.changeUpgrade(ctx, func(old *upgradeRecord, now time.Time) (*upgradeRecord, map[string]*upgradedRecord, error) {
		for _, name := range q.Workers {
			if b.m.Workers[name] == nil {
				return nil, nil, b.noWorker(name)
			}
		}
		if old != nil && old.State != wire.UpgradeDone && b.m.underWay() != "" {
			return nil, nil, wire.Problemf(409, "upgrade-goes-on", "wait until that is over: verge upgrade status", "the upgrade was not begun", "worker %s is in another one, of %s", b.m.underWay(), old.By)
		}
		u := &upgradeRecord{V: wire.Version, ID: wire.NewID(), Request: q, By: rest.Caller(ctx), At: now.Round(0), State: wire.UpgradeRolling}
		gone := map[string]*upgradedRecord{}
		for name := range b.m.upgraded { // of the one before
			gone[name] = nil
		}
		return u, gone, nil
	}, "begun")
}

// underWay is a worker that is being upgraded, "" for none.
func (m *model) underWay() string {
	for _, name := range records.SortedKeys(m.upgraded) {
		if r := m.upgraded[name]; m.Workers[name] != nil && (r.Phase == wave.Begun || r.Phase == wave.Failed && r.Undo) {
			return name
		}
	}
	return ""
}

// ChangeUpgrade implements rest.Backend.
func (b backend) ChangeUpgrade(ctx context.Context, action string, q wire.UpgradeAction) (wire.UpgradeView, error) {
	if !slices.Contains([]string{wire.UpgradePause, wire.UpgradeResume, wire.UpgradeUndo}, action) {
		return wire.UpgradeView{}, wire.Problemf(422, "invalid-request", "pause, resume or undo", "nothing was changed", "an upgrade knows no action %.20q", action)
	}
	return b.changeUpgrade(ctx, func(old *upgradeRecord, now time.Time) (*upgradeRecord, map[string]*upgradedRecord, error) {
		if old == nil {
			return nil, nil, wire.Problemf(409, "no-upgrade", "verge upgrade start", "nothing was changed", "the workers of cluster %s were not upgraded yet", b.name)
		}
		u, workers := *old, map[string]*upgradedRecord{}
		switch action {
		case wire.UpgradePause:
			if u.State != wire.UpgradeRolling {
				return nil, nil, wire.Problemf(409, "not-rolling", "verge upgrade status", "nothing was changed", "the upgrade is %s", u.State)
			}
			u.State, u.Why = wire.UpgradePaused, "paused by "+rest.Caller(ctx)
			if q.Reason != "" {
				u.Why += ": " + cut(q.Reason, 500)
			}
			return &u, nil, nil
		case wire.UpgradeUndo:
			if name := b.m.underWay(); name != "" {
				return nil, nil, wire.Problemf(409, "upgrade-goes-on", "verge upgrade pause, wait until the workers that began are through, then undo", "nothing was changed", "worker %s is being upgraded", name)
			}
			u.Undo, u.At = true, now.Round(0)
		}
		u.State, u.Why = wire.UpgradeRolling, ""
		for name, w := range b.m.Workers {
			r := b.m.upgradeOf(w)
			switch {
			case action == wire.UpgradeUndo && r.Made != "":
				r.Phase, r.Since, r.Why, r.Undo = wave.Waits, now.Round(0), "", true
			case action == wire.UpgradeUndo && r.Phase == wave.Waits:
				r.Phase, r.Since, r.Why = wave.Skipped, now.Round(0), "it was not upgraded"
			case action == wire.UpgradeResume && r.Phase == wave.Failed && !r.Undo:
				r.Phase, r.Since, r.Why, r.Undo = wave.Waits, now.Round(0), "", u.Undo
			case action == wire.UpgradeResume && r.Phase == wave.Skipped && !u.Undo && u.Request.For(w.Info.OS, w.Info.Arch) != nil && (len(u.Request.Workers) == 0 || slices.Contains(u.Request.Workers, name)):
				r.Phase, r.Since, r.Why = wave.Waits, now.Round(0), "" // its operator may have let it since, or it is new
			default:
				continue
			}
			workers[name] = &r
		}
		return &u, workers, nil
	}, map[string]string{wire.UpgradePause: "paused", wire.UpgradeResume: "resumed", wire.UpgradeUndo: "to be undone"}[action])
}

// changeUpgrade stores what change makes of the upgrade.
func (b backend) changeUpgrade(ctx context.Context, change func(old *upgradeRecord, now time.Time) (*upgradeRecord, map[string]*upgradedRecord, error), did string) (wire.UpgradeView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.UpgradeView{}, cordonUnstored(err)
	}
	u, workers, err := change(b.m.upgrade(), now)
	if err != nil {
		return wire.UpgradeView{}, err
	}
	what := fmt.Sprintf("upgrade %.6s %s by %s", u.ID, did, rest.Caller(ctx))
	if err := b.keepUpgrade(ctx, u, workers, []state.Event{{Subject: b.m.Tier(), What: what}}, now); err != nil {
		return wire.UpgradeView{}, cordonUnstored(err)
	}
	loop.Poke(b.upgrades)
	return b.m.upgradeView(now), nil
}
