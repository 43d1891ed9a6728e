package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// RunPrograms removes programs that no upgrade needs, until ctx ends.
func (b *Backend) RunPrograms(ctx context.Context) {
	t := time.NewTicker(upgrades.SweepEvery)
	defer t.Stop()
	for {
		if err := b.sweepPrograms(ctx, time.Now()); err != nil && ctx.Err() == nil {
			b.Logger.Warn("programs that no upgrade needs could not be removed, it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// sweepPrograms removes the programs whose time has come.
func (b *Backend) sweepPrograms(ctx context.Context, now time.Time) error {
	b.programs.Lock()
	defer b.programs.Unlock()
	list, err := b.ObjectStore.List(ctx, wire.ProgramsNamespace)
	if err != nil {
		return err
	}
	var old []apiv1.ObjectView
	var goes []time.Time
	core.Do(b.Core, func(m *state.Model) {
		if err = core.Reload(ctx, b.Core, now); err == nil && m.Mark() == nil {
			old, goes = upgrades.Spare(m, list) // else what was begun since the backup is not known
		}
	})
	if err != nil {
		return err
	}
	for i, o := range old {
		if now.Before(goes[i]) {
			continue
		}
		if _, err := b.ObjectStore.Remove(ctx, o.Namespace, o.Name); err != nil {
			return fmt.Errorf("remove %s: %w", o.Name, err)
		}
		what := fmt.Sprintf("program %.12s (%d bytes) is removed: no upgrade needs it",
			strings.TrimPrefix(o.Name, (&wire.Program{}).Object()), o.Size)
		b.EventRing.Note(now, event.ClusterProgramRemoved, b.ClusterName, what)
	}
	return nil
}

// viewSpare adds to a view what is kept of programs that no upgrade needs.
func (b *Backend) viewSpare(ctx context.Context, v *apiv1.UpgradeView) {
	list, err := b.ObjectStore.List(ctx, wire.ProgramsNamespace)
	if err != nil {
		return // the next look says it
	}
	old, goes := core.View2(b.Core, func(m *state.Model) ([]apiv1.ObjectView, []time.Time) {
		return upgrades.Spare(m, list)
	})
	for i, o := range old {
		v.Spare++
		v.SpareBytes += o.Size
		if goes[i].After(v.SpareUntil) {
			v.SpareUntil = goes[i].UTC().Round(time.Second)
		}
	}
}
