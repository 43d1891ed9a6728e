package cluster

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// RemoveWorker implements backend.Node.
func (c *Cluster) RemoveWorker(ctx context.Context, cluster, worker string, force bool) error {
	if cluster != c.ClusterName {
		return rest.ElsewhereAt("removing a worker", cluster)
	}
	g, err := workers.RemoveWorker(ctx, c.Core, worker, force, c.clock.Now())
	if err != nil {
		return err
	}
	return c.shut(*g)
}

// Leave implements backend.Node. What is asked by the key of a worker is as good as
// said by its operator: who has it can end the worker anyway.
func (c *Cluster) Leave(ctx context.Context, r rpc.LeaveRequest) error {
	err := c.enroller.CheckLeave(r)
	if err == nil {
		err = workers.IsRegistered(c.Core, r)
	}
	if err == nil {
		err = c.RemoveWorker(ctx, c.ClusterName, r.Name, r.Force)
	}
	if err != nil {
		c.Logger.Warn("a worker that wants to leave was refused", "name", r.Name, "error", err)
	}
	return err
}

// RevokeWorker implements backend.Node.
func (c *Cluster) RevokeWorker(ctx context.Context, cluster, worker string) error {
	if cluster != c.ClusterName {
		return rest.ElsewhereAt("revoking the key of a worker", cluster)
	}
	g, err := workers.RevokeWorker(ctx, c.Core, worker, c.clock.Now())
	if g != nil {
		if err := c.shut(*g); err != nil {
			return err
		}
	}
	return err
}

// shut ends the connection of a worker whose key does not count any more, and
// refuses it from now on.
func (c *Cluster) shut(g enroll.Gone) error {
	if err := c.server.RevokeWorker(g.Name, g.NatsKey); err != nil {
		return wire.Problemf(507, "not-stored",
			"do it again: as long as this fails the worker can still connect, though it is told nothing",
			"the worker's credentials could not be revoked", "%v", err)
	}
	return nil
}

// reconcileGone does at a start what a crash may have kept shut from doing, and
// forgets what is of no meaning any more.
func (c *Cluster) reconcileGone(ctx context.Context) error {
	return core.View(c.Core, func(m *state.Model) error {
		t := m.Begin()
		now := c.clock.Now()
		for _, hash := range records.SortedKeys(m.Gone) {
			g := m.Gone[hash]
			switch {
			case now.After(g.Until):
				core.ForgetGone(t, hash)
			case !c.server.Revoked(g.NatsKey):
				if err := c.server.RevokeWorker(g.Name, g.NatsKey); err != nil {
					return err
				}
			}
		}
		if _, _, err := c.Keeper.Parts(ctx, t); err != nil {
			return fmt.Errorf("forgetting old revocations: %w", err)
		}
		return nil
	})
}
