package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// The programs of an upgrade are objects of the cluster. A worker fetches the one that it is
// told to be, and keeps by itself what it was before; so those of the upgrade that there is
// are needed, also when it is done, since what was skipped may be upgraded later. Others go.

const (
	// keepPrograms is how long a program is kept that no upgrade needs: after it was put,
	// and after the upgrade began that is for another one.
	keepPrograms = 24 * time.Hour
	// sweepEvery is the time between two looks at them.
	sweepEvery = time.Hour
)

// spare are the programs among objects that no upgrade needs, and when they go.
func (m *model) spare(list []wire.ObjectView) (programs []wire.ObjectView, goes []time.Time) {
	needed := map[string]bool{}
	var began time.Time
	if u := m.upgrade(); u != nil {
		began = u.At
		for i := range u.Request.Programs {
			needed[u.Request.Programs[i].Object()] = true
		}
	}
	for _, o := range list {
		// Whatever else somebody has put there is theirs.
		if o.Namespace != wire.ProgramsNamespace || o.Copy || o.Problem != "" || needed[o.Name] || !strings.HasPrefix(o.Name, (&wire.Program{}).Object()) {
			continue
		}
		at := o.Updated
		if began.After(at) {
			at = began
		}
		programs, goes = append(programs, o), append(goes, at.Add(keepPrograms))
	}
	return programs, goes
}

// runPrograms removes programs that no upgrade needs, until ctx ends.
func (c *Cluster) runPrograms(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := c.sweepPrograms(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.log.Warn("programs that no upgrade needs could not be removed, it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// sweepPrograms removes the programs whose time has come.
func (c *Cluster) sweepPrograms(ctx context.Context, now time.Time) error {
	c.programs.Lock()
	defer c.programs.Unlock()
	list, err := c.shelf.List(ctx, wire.ProgramsNamespace)
	if err != nil {
		return err
	}
	c.mu.Lock()
	err = c.reload(ctx, now)
	old, goes := c.m.spare(list)
	restored := c.m.Mark() != nil
	c.mu.Unlock()
	if err != nil || restored { // what was begun since the backup is not known
		return err
	}
	for i, o := range old {
		if now.Before(goes[i]) {
			continue
		}
		if _, err := c.shelf.Remove(ctx, o.Namespace, o.Name); err != nil {
			return fmt.Errorf("remove %s: %w", o.Name, err)
		}
		what := fmt.Sprintf("program %.12s (%d bytes) is removed: no upgrade needs it", strings.TrimPrefix(o.Name, (&wire.Program{}).Object()), o.Size)
		c.events.Add(now, c.m.Tier(), "cluster/"+c.name, what)
		c.log.Info(what)
	}
	return nil
}

// viewSpare adds to a view what is kept of programs that no upgrade needs.
func (b backend) viewSpare(ctx context.Context, v *wire.UpgradeView) {
	list, err := b.shelf.List(ctx, wire.ProgramsNamespace)
	if err != nil {
		return // the next look says it
	}
	b.mu.Lock()
	old, goes := b.m.spare(list)
	b.mu.Unlock()
	for i, o := range old {
		v.Spare++
		v.SpareBytes += o.Size
		if goes[i].After(v.SpareUntil) {
			v.SpareUntil = goes[i].UTC().Round(time.Second)
		}
	}
}
