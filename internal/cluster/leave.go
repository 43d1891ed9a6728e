package cluster

import (
	"cmp"
	"context"
	"fmt"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"slices"
	"time"
)

// maxGone bounds the keys that a cluster remembers not to count any more. Beyond
// it those are forgotten whose certificates are of no use soonest.
const maxGone = 4096

// RemoveWorker implements rest.Backend.
func (b backend) RemoveWorker(ctx context.Context, cluster, worker string, force bool) error {
	if cluster != b.name {
		return rest.ElsewhereAt("removing a worker", cluster)
	}
	g, err := b.removeWorker(ctx, worker, force, b.clock.Now())
	if err != nil {
		return err
	}
	return b.shut(*g)
}

// Leave implements rest.Backend. What is asked by the key of a worker is as good as
// said by its operator: who has it can end the worker anyway.
func (b backend) Leave(ctx context.Context, r wire.LeaveRequest) error {
	err := b.desk.CheckLeave(r)
	if err == nil {
		err = b.isRegistered(r)
	}
	if err == nil {
		err = b.RemoveWorker(ctx, b.name, r.Name, r.Force)
	}
	if err != nil {
		b.log.Warn("a worker that wants to leave was refused", "name", r.Name, "error", err)
	}
	return err
}

// isRegistered says whether a request is made by the key of the worker that it names.
func (c *core) isRegistered(r wire.LeaveRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := fmt.Sprintf("worker %.63s of cluster %s", r.Name, c.name)
	if g := c.m.Gone[pki.KeyHash(r.PublicKey)]; g != nil {
		return g.Problem(what, againWorker)
	}
	w := c.m.Workers[r.Name]
	if w == nil {
		return enroll.Unknown(what, againWorker)
	}
	if w.KeyHash != pki.KeyHash(r.PublicKey) || w.PublicKey != r.NatsKey {
		return wire.Problemf(403, "another-key", "ask an operator of the cluster: verge remove worker/"+c.name+"/"+r.Name, "the worker stays", "%s is registered with another key", what)
	}
	return nil
}

// RevokeWorker implements rest.Backend.
func (b backend) RevokeWorker(ctx context.Context, cluster, worker string) error {
	if cluster != b.name {
		return rest.ElsewhereAt("revoking the key of a worker", cluster)
	}
	g, err := b.revokeWorker(ctx, worker, b.clock.Now())
	if err != nil {
		return err
	}
	return b.shut(*g)
}

// shut ends the connection of a worker whose key does not count any more, and
// refuses it from now on.
func (c *Cluster) shut(g enroll.Gone) error {
	if err := c.server.RevokeWorker(g.Name, g.NatsKey); err != nil {
		return wire.Problemf(507, "not-stored", "do it again: as long as this fails the worker can still connect, though it is told nothing",
			"the worker's credentials could not be revoked", "%v", err)
	}
	return nil
}

// reconcileGone does at a start what a crash may have kept shut from doing, and
// forgets what is of no meaning any more.
func (c *Cluster) reconcileGone(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.m.begin()
	now := c.clock.Now()
	for _, hash := range records.SortedKeys(c.m.Gone) {
		g := c.m.Gone[hash]
		switch {
		case now.After(g.Until):
			t.forgetGone(hash)
		case !c.server.Revoked(g.NatsKey):
			if err := c.server.RevokeWorker(g.Name, g.NatsKey); err != nil {
				return err
			}
		}
	}
	if _, _, err := c.keeper.Parts(ctx, t); err != nil {
		return fmt.Errorf("forgetting old revocations: %w", err)
	}
	return nil
}

func (t *tx) forgetGone(hash string) { t.setGone(hash, nil, nil) }

func (t *tx) setGone(hash string, g *enroll.Gone, r *wire.Revocation) {
	state.GoneTable.Put(t.Rows, hash, g)
	state.RevokedTable.Put(t.Rows, hash, r)
	state.UpRevokedTable.Put(t.Rows, hash, r)
}

func noWorker(cluster, name string) error {
	return wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%.63s is not in cluster %s", name, cluster)
}

// removeWorker forgets a worker, whose key does not count any more and whose name
// is free then. It is durable when it returns.
func (c *core) removeWorker(ctx context.Context, name string, force bool, now time.Time) (*enroll.Gone, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return nil, err
	}
	w := c.m.Workers[name]
	if w == nil {
		return nil, noWorker(c.name, name)
	}
	if !force {
		if err := c.m.mayRemove(name, w); err != nil {
			return nil, err
		}
	}
	t := c.m.begin()
	t.dropUses(name)
	if _, _, err := c.keeper.Parts(ctx, t); err != nil {
		return nil, fmt.Errorf("forgetting what worker %s used: %w", name, err)
	}
	delete(c.m.uses, name)
	g := &enroll.Gone{V: wire.Version, Name: name, Removed: true, At: now, NatsKey: w.PublicKey, Until: w.CertifiedUntil().Add(pki.RenewGrace)}
	t = c.m.begin()
	state.WorkerTable.Put(t.Rows, name, nil)
	if err := c.note(ctx, t, w.KeyHash, g); err != nil {
		return nil, err
	}
	c.tellWorker(wire.HookWorkerRemoved, name, hooks.Ended, "removed", time.Now())
	c.events.Add(time.Now(), c.m.Tier(), "worker/"+c.name+"/"+name, "removed")
	c.log.Info("a worker was removed", "worker", name, "forced", force)
	loop.Poke(c.wake)
	return g, nil
}

// mayRemove says what would be lost.
func (m *model) mayRemove(name string, w *state.Worker) error {
	again := "or remove it all the same, what it runs is placed elsewhere: verge remove worker/" + m.Name + "/" + name + " --force"
	n := 0
	for _, i := range m.Insts {
		if i.Worker == name && i.State != wire.Terminated && i.State != wire.Failed {
			n++
		}
	}
	switch {
	case n > 0:
		return wire.Problemf(409, "worker-in-use", "have them placed elsewhere first: verge drain worker/"+m.Name+"/"+name+"; "+again, "the worker is in use", "%s has %s", name, wire.Count(n, "instance"))
	case w.Connected && !w.Suspect && w.Cordon == nil:
		return wire.Problemf(409, "worker-connected", "drain it (verge drain worker/"+m.Name+"/"+name+") or stop it (verge worker stop) first; "+again, "the worker is connected", "%s may be given something to run at any moment", name)
	}
	return nil
}

// revokeWorker makes the key of a worker count no more, and keeps the worker: who
// joins again under its name is it.
func (c *core) revokeWorker(ctx context.Context, name string, now time.Time) (*enroll.Gone, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return nil, err
	}
	w := c.m.Workers[name]
	if w == nil {
		return nil, noWorker(c.name, name)
	}
	if !w.Revoked.IsZero() {
		return nil, wire.Problemf(409, "revoked-already", "let it join again ("+againWorker+"), or remove it: verge remove worker/"+c.name+"/"+name+" --force",
			"the key was revoked before", "that of worker %s, at %s", name, w.Revoked.UTC().Format(time.RFC3339))
	}
	g := &enroll.Gone{V: wire.Version, Name: name, At: now, NatsKey: w.PublicKey, Until: w.CertifiedUntil().Add(pki.RenewGrace)}
	rec := w.WorkerRecord
	rec.Revoked = now
	t := c.m.begin()
	state.WorkerTable.Put(t.Rows, name, &rec)
	if err := c.note(ctx, t, w.KeyHash, g); err != nil {
		return nil, err
	}
	w.Connected = false
	c.events.Add(time.Now(), c.m.Tier(), "worker/"+c.name+"/"+name, "its key was revoked")
	c.log.Info("the key of a worker was revoked", "worker", name)
	loop.Poke(c.wake)
	return g, nil
}

// note stores, with what else t says of its holder, that a key is revoked, for this cluster,
// its workers and the root. The mutex is held.
func (c *core) note(ctx context.Context, t *tx, hash string, g *enroll.Gone) error {
	if len(c.m.Gone) >= maxGone {
		full := slices.MinFunc(records.SortedKeys(c.m.Gone), func(a, b string) int {
			return cmp.Or(c.m.Gone[a].Until.Compare(c.m.Gone[b].Until), cmp.Compare(a, b))
		})
		t.forgetGone(full)
	}
	t.setGone(hash, g, &wire.Revocation{V: wire.Version, Until: g.Until, Cluster: c.name})
	if err := c.keeper.Whole(ctx, t); err != nil {
		return wire.Problemf(507, "not-stored", "free some space or repair the disk of the cluster, then try again", "nothing was changed: it could not be stored", "%v", err)
	}
	c.revoked.Set(c.m.Revoked())
	c.nudgeAll()
	loop.Poke(c.upChanged)
	return nil
}

// nudgeAll asks all workers for a report, with which they fetch what is new. The
// mutex is held.
func (c *core) nudgeAll() {
	for name := range c.m.Workers {
		c.nudge(name)
	}
}
