package clusters

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxGone is the most revoked keys of clusters that the root remembers.
	maxGone = 1024
	// MaxRevoked is the most keys of its workers that a cluster may revoke.
	MaxRevoked = 4096
)

// NotShut is the error for a cluster whose connection could not be closed.
func NotShut(err error) error {
	if err == nil {
		return nil
	}
	return wire.Problemf(507, "not-stored", "free some space or repair the disk, and restart the root",
		"the cluster's credentials could not be revoked", "it is told nothing any more, but it can still connect: %v",
		err)
}

// NoCluster is the error for a cluster that is not here.
func NoCluster(name string) error {
	return wire.Problemf(404, "no-such-cluster", "verge get clusters", "there is no such cluster",
		"%.63s is not known", name)
}

// RemoveCluster forgets a cluster, whose key does not count any more and whose
// name is free then; the passes that follow place elsewhere what it had.
func RemoveCluster(ctx context.Context, c *core.Core, name string, force bool, now time.Time) error {
	return core.Update(ctx, c, time.Now(), func(t *state.Tx) error {
		cl := t.Model.Clusters[name]
		if cl == nil {
			return NoCluster(name)
		}
		if !force {
			if err := mayRemove(t.Model, name, cl); err != nil {
				return err
			}
		}
		revoke(t, cl, nil, now)
		t.Event(event.ClusterRemoved, name, "removed")
		return nil
	})
}

// mayRemove says what would be lost.
func mayRemove(m *state.Model, name string, cl *state.Cluster) error {
	again := "or remove it all the same, what it runs is placed elsewhere: verge remove cluster/" + name + " --force"
	n := 0
	for _, i := range m.Insts {
		if i.Cluster == name && !i.Draining {
			n++
		}
	}
	switch {
	case n > 0:
		return wire.Problemf(409, "cluster-in-use",
			"have them placed elsewhere first: verge drain cluster/"+name+"; "+again, "the cluster is in use",
			"%s has %s", name, wire.Count(n, "instance"))
	case cl.Connected && !cl.Suspect && cl.EverHeard && cl.Cordon == nil:
		return wire.Problemf(409, "cluster-connected",
			"drain it (verge drain cluster/"+name+") or end its process first; "+again, "the cluster is connected",
			"%s may be given something to run at any moment", name)
	}
	return nil
}

// RevokeCluster revokes the key of a cluster, and keeps the cluster. It reports whether the key
// is revoked, which it is also with the error of one that was before: the connection may have
// outlived that.
func RevokeCluster(ctx context.Context, c *core.Core, name string, now time.Time) (revoked bool, err error) {
	err = core.Update(ctx, c, time.Now(), func(t *state.Tx) error {
		cl := t.Model.Clusters[name]
		if cl == nil {
			return NoCluster(name)
		}
		if revoked = !cl.Revoked.IsZero(); revoked {
			return wire.Problemf(409, "revoked-already",
				"let it join again ("+AgainCluster(name)+"), or remove it: verge remove cluster/"+name+" --force",
				"the key was revoked before", "that of cluster %s, at %s", name, cl.Revoked.UTC().Format(time.RFC3339))
		}
		rec := cl.ClusterRecord
		rec.Revoked = now
		revoke(t, cl, &rec, now)
		t.Event(event.ClusterRevoked, name, "its key was revoked")
		return nil
	})
	return revoked || err == nil, err
}

// revoke makes the key of a cluster count no more, and rec its record, nil for none. That the
// clusters are told follows from it.
func revoke(t *state.Tx, cl *state.Cluster, rec *state.ClusterRecord, now time.Time) {
	state.ClusterTable.Put(t.Rows, cl.Name, rec)
	state.GoneTable.Put(t.Rows, cl.KeyHash, &enroll.Gone{V: wire.Version, Name: cl.Name, Removed: rec == nil, At: now,
		Until: cl.ExpiresAt().Add(pki.RenewGrace)})
	if gone := t.Model.Gone; len(gone) >= maxGone {
		full := slices.MinFunc(records.SortedKeys(gone), func(a, b string) int {
			return cmp.Or(gone[a].Until.Compare(gone[b].Until), cmp.Compare(a, b))
		})
		state.GoneTable.Put(t.Rows, full, nil)
	}
}

// TakeRevoked takes over what a cluster reports about a key.
func TakeRevoked(cl *state.Cluster, ch wire.Change) error {
	hash := strings.TrimPrefix(ch.Key, wire.ReportedRevoked)
	if ch.Deleted {
		delete(cl.RevokedKeys, hash)
		return nil
	}
	var r wire.Revocation
	if err := json.Unmarshal(ch.Value, &r); err != nil {
		return err
	}
	switch _, known := cl.RevokedKeys[hash]; {
	case len(hash) != len(pki.KeyHash(nil)) || strings.Trim(hash, "0123456789abcdef") != "":
		return fmt.Errorf("%.100q is not the hash of a key", hash)
	case !known && len(cl.RevokedKeys) >= MaxRevoked:
		return fmt.Errorf("it has reported %d others", MaxRevoked)
	}
	// It speaks for its own nodes only.
	cl.RevokedKeys[hash] = wire.Revocation{V: wire.Version, Until: r.Until.UTC(), Cluster: cl.Name}
	return nil
}

// StopServing ends what Serve began for a cluster.
func StopServing(c *core.Core, name string) {
	s := core.View(c, func(*state.Model) core.Serving {
		defer delete(c.Served, name)
		return c.Served[name]
	})
	if s.Stop != nil {
		s.Stop()
	}
}

// serveRenewals answers the renewals of a cluster.
func serveRenewals(c *core.Core, u *exchange.Upper) (stop func(), err error) {
	if c.RenewCluster == nil {
		return func() {}, nil
	}
	return u.ServeRenewals(exchange.ClusterSubjects().Renew, c.RenewCluster)
}
