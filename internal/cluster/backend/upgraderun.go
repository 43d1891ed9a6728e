package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrader"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Upgrade implements rest.Backend.
func (b *Backend) Upgrade(ctx context.Context) (apiv1.UpgradeView, error) {
	v := core.View(b.Core, func(m *state.Model) apiv1.UpgradeView { return upgrades.View(m, time.Now()) })
	b.viewSpare(ctx, &v)
	return v, nil
}

// StartUpgrade implements rest.Backend.
func (b *Backend) StartUpgrade(ctx context.Context, q apiv1.UpgradeRequest) (apiv1.UpgradeView, error) {
	if err := q.Fill(); err != nil {
		return apiv1.UpgradeView{}, wire.Problemf(422, "invalid-request", "verge upgrade start --help",
			"the upgrade was not begun", "%v", err)
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
			return apiv1.UpgradeView{}, wire.Problemf(409, "no-program", "verge upgrade start puts it there",
				"the upgrade was not begun", "the program for %s/%s is not in the cluster: %v", p.OS, p.Arch, err)
		}
	}
	return b.changeUpgrade(ctx, func(old *upgrades.Record, now time.Time) (*upgrades.Record,
		map[string]*upgrades.WorkerRecord, error) {
		for _, name := range q.Workers {
			if b.M.Workers[name] == nil {
				return nil, nil, workers.NoWorker(b.ClusterName, name)
			}
		}
		if old != nil && old.State != apiv1.UpgradeDone && upgrader.UnderWay(b.M) != "" {
			return nil, nil, wire.Problemf(409, "upgrade-goes-on", "wait until that is over: verge upgrade status",
				"the upgrade was not begun", "worker %s is in another one, of %s", upgrader.UnderWay(b.M), old.By)
		}
		u := &upgrades.Record{V: wire.Version, ID: wire.NewID(), Request: q, By: rest.Caller(ctx), At: now.Round(0),
			State: apiv1.UpgradeRolling}
		gone := map[string]*upgrades.WorkerRecord{}
		for name := range upgrades.WorkerTable.Rows(b.M.DB) { // of the one before
			gone[name] = nil
		}
		return u, gone, nil
	}, "begun")
}

// ChangeUpgrade implements rest.Backend.
func (b *Backend) ChangeUpgrade(ctx context.Context, action string, q apiv1.UpgradeAction) (apiv1.UpgradeView, error) {
	if !slices.Contains([]string{apiv1.UpgradePause, apiv1.UpgradeResume, apiv1.UpgradeUndo}, action) {
		return apiv1.UpgradeView{}, wire.Problemf(422, "invalid-request", "pause, resume or undo",
			"nothing was changed", "an upgrade knows no action %.20q", action)
	}
	return b.changeUpgrade(ctx, func(old *upgrades.Record, now time.Time) (*upgrades.Record,
		map[string]*upgrades.WorkerRecord, error) {
		if old == nil {
			return nil, nil, wire.Problemf(409, "no-upgrade", "verge upgrade start", "nothing was changed",
				"the workers of cluster %s were not upgraded yet", b.ClusterName)
		}
		u, workers := *old, map[string]*upgrades.WorkerRecord{}
		switch action {
		case apiv1.UpgradePause:
			if u.State != apiv1.UpgradeRolling {
				return nil, nil, wire.Problemf(409, "not-rolling", "verge upgrade status", "nothing was changed",
					"the upgrade is %s", u.State)
			}
			u.State, u.Why = apiv1.UpgradePaused, "paused by "+rest.Caller(ctx)
			if q.Reason != "" {
				u.Why += ": " + state.Cut(q.Reason, 500)
			}
			return &u, nil, nil
		case apiv1.UpgradeUndo:
			if name := upgrader.UnderWay(b.M); name != "" {
				return nil, nil, wire.Problemf(409, "upgrade-goes-on",
					"verge upgrade pause, wait until the workers that began are through, then undo",
					"nothing was changed", "worker %s is being upgraded", name)
			}
			u.Undo, u.At = true, now.Round(0)
		}
		u.State, u.Why = apiv1.UpgradeRolling, ""
		for name, w := range b.M.Workers {
			r := upgrades.Of(b.M, w)
			switch {
			case action == apiv1.UpgradeUndo && r.Made != "":
				r.Phase, r.Since, r.Why, r.Undo = wave.Waits, now.Round(0), "", true
			case action == apiv1.UpgradeUndo && r.Phase == wave.Waits:
				r.Phase, r.Since, r.Why = wave.Skipped, now.Round(0), "it was not upgraded"
			case action == apiv1.UpgradeResume && r.Phase == wave.Failed && !r.Undo:
				r.Phase, r.Since, r.Why, r.Undo = wave.Waits, now.Round(0), "", u.Undo
			case action == apiv1.UpgradeResume && r.Phase == wave.Skipped && !u.Undo &&
				u.Request.For(w.Info.OS, w.Info.Arch) != nil &&
				(len(u.Request.Workers) == 0 || slices.Contains(u.Request.Workers, name)):
				r.Phase, r.Since, r.Why = wave.Waits, now.Round(0),
					"" // its operator may have let it since, or it is new
			default:
				continue
			}
			workers[name] = &r
		}
		return &u, workers, nil
	}, map[string]string{apiv1.UpgradePause: "paused", apiv1.UpgradeResume: "resumed",
		apiv1.UpgradeUndo: "to be undone"}[action])
}

// changeUpgrade stores what change makes of the upgrade.
func (b *Backend) changeUpgrade(ctx context.Context,
	change func(old *upgrades.Record, now time.Time) (*upgrades.Record, map[string]*upgrades.WorkerRecord, error),
	did string) (apiv1.UpgradeView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.UpgradeView, error) {
		now := time.Now()
		if err := core.Reload(ctx, b.Core, now); err != nil {
			return apiv1.UpgradeView{}, core.Unstored(err)
		}
		u, of, err := change(upgrades.Current(m), now)
		if err != nil {
			return apiv1.UpgradeView{}, err
		}
		e := event.ClusterUpgrade.On(b.ClusterName, "upgrade %.6s %s by %s", u.ID, did, rest.Caller(ctx))
		if err := upgrader.KeepUpgrade(ctx, b.Core, u, of, []event.Event{e}, now); err != nil {
			return apiv1.UpgradeView{}, wire.Problemf(507, "not-stored", "look (verge upgrade status), then try again",
				"the change of the upgrade may be stored in part", "%v", err)
		}
		loop.Poke(b.Upgrades)
		return upgrades.View(m, now), nil
	})
}
