package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// IsRegistered says whether a request is made by the key of the worker that it names.
func IsRegistered(c *core.Core, r rpc.LeaveRequest) error {
	return core.View(c, func(m *state.Model) error {
		what := fmt.Sprintf("worker %.63s of cluster %s", r.Name, c.ClusterName)
		if g := m.Gone[pki.KeyHash(r.PublicKey)]; g != nil {
			return g.Problem(what, AgainWorker)
		}
		w := m.Workers[r.Name]
		if w == nil {
			return enroll.Unknown(what, AgainWorker)
		}
		if w.KeyHash != pki.KeyHash(r.PublicKey) || w.PublicKey != r.NatsKey {
			return wire.Problemf(403, "another-key",
				"ask an operator of the cluster: verge remove worker/"+c.ClusterName+"/"+r.Name, "the worker stays",
				"%s is registered with another key", what)
		}
		return nil
	})
}

// NoWorker is the error for a worker that has not joined the cluster.
func NoWorker(cluster, name string) error {
	return wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker",
		"%.63s is not in cluster %s", name, cluster)
}

// RemoveWorker forgets a worker, whose key does not count any more and whose name
// is free then. It is durable when it returns.
func RemoveWorker(ctx context.Context, c *core.Core, name string, force bool, now time.Time) (*enroll.Gone, error) {
	return core.View2(c, func(m *state.Model) (*enroll.Gone, error) {
		if err := core.Reload(ctx, c, time.Now()); err != nil {
			return nil, err
		}
		w := m.Workers[name]
		if w == nil {
			return nil, NoWorker(c.ClusterName, name)
		}
		if !force {
			if err := mayRemove(m, name, w); err != nil {
				return nil, err
			}
		}
		t := m.Begin()
		routes.SetUses(t, name, nil)
		if _, _, err := c.Keeper.Parts(ctx, t); err != nil {
			return nil, fmt.Errorf("forgetting what worker %s used: %w", name, err)
		}
		g := &enroll.Gone{V: wire.Version, Name: name, Removed: true, At: now, NatsKey: w.PublicKey,
			Until: w.CertifiedUntil().Add(pki.RenewGrace)}
		t = m.Begin()
		state.WorkerTable.Put(t.Rows, name, nil)
		if err := core.Note(ctx, c, t, w.KeyHash, g); err != nil {
			return nil, err
		}
		c.EventRing.Note(time.Now(), event.WorkerRemoved, event.WorkerName(c.ClusterName, name), "removed")
		loop.Poke(c.Wake)
		return g, nil
	})
}

// mayRemove says what would be lost.
func mayRemove(m *state.Model, name string, w *state.Worker) error {
	again := "or remove it all the same, what it runs is placed elsewhere: verge remove worker/" + m.Name + "/" +
		name + " --force"
	n := 0
	for _, i := range m.Insts {
		if i.Worker == name && i.State != wire.Terminated && i.State != wire.Failed {
			n++
		}
	}
	switch {
	case n > 0:
		return wire.Problemf(409, "worker-in-use",
			"have them placed elsewhere first: verge drain worker/"+m.Name+"/"+name+"; "+again,
			"the worker is in use", "%s has %s", name, wire.Count(n, "instance"))
	case w.Connected && !w.Suspect && w.Cordon == nil:
		return wire.Problemf(409, "worker-connected",
			"drain it (verge drain worker/"+m.Name+"/"+name+") or stop it (verge worker stop) first; "+again,
			"the worker is connected", "%s may be given something to run at any moment", name)
	}
	return nil
}

// RevokeWorker revokes the key of a worker, and keeps the worker: who joins again under its
// name is it. It returns the revocation also with the error of a key that was revoked before,
// whose connection may have outlived that.
func RevokeWorker(ctx context.Context, c *core.Core, name string, now time.Time) (*enroll.Gone, error) {
	return core.View2(c, func(m *state.Model) (*enroll.Gone, error) {
		if err := core.Reload(ctx, c, time.Now()); err != nil {
			return nil, err
		}
		w := m.Workers[name]
		if w == nil {
			return nil, NoWorker(c.ClusterName, name)
		}
		if !w.Revoked.IsZero() {
			return m.Gone[w.KeyHash], wire.Problemf(409, "revoked-already",
				"let it join again ("+AgainWorker+"), or remove it: verge remove worker/"+c.ClusterName+"/"+name+
					" --force",
				"the key was revoked before", "that of worker %s, at %s", name, w.Revoked.UTC().Format(time.RFC3339))
		}
		g := &enroll.Gone{V: wire.Version, Name: name, At: now, NatsKey: w.PublicKey,
			Until: w.CertifiedUntil().Add(pki.RenewGrace)}
		rec := w.WorkerRecord
		rec.Revoked = now
		t := m.Begin()
		state.WorkerTable.Put(t.Rows, name, &rec)
		if err := core.Note(ctx, c, t, w.KeyHash, g); err != nil {
			return nil, err
		}
		w.Connected = false
		c.EventRing.Note(time.Now(), event.WorkerRevoked, event.WorkerName(c.ClusterName, name), "its key was revoked")
		loop.Poke(c.Wake)
		return g, nil
	})
}
