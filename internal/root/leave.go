package root

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
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxGone bounds the keys of clusters that the root remembers not to count any
	// more, maxRevoked those that one cluster may report of its workers.
	maxGone    = 1024
	maxRevoked = 4096
	// maxFar bounds what all clusters are told of each other's: beyond it those are
	// left out whose certificates are of no use soonest.
	maxFar = 8192
	// upRevoked begins what a cluster reports about a key.
	upRevoked = "revoked/"
	// byRoot stands for the root where else the name of a cluster does.
	byRoot = "="
)

// RemoveCluster implements rest.Backend.
func (b backend) RemoveCluster(ctx context.Context, name string, force bool) error {
	b.joining.Lock()
	defer b.joining.Unlock()
	if err := b.removeCluster(ctx, name, force, b.clock.Now()); err != nil {
		return err
	}
	b.stopServing(name)
	if err := b.server.RemoveCluster(name); err != nil {
		return notShut(err)
	}
	return nil
}

// RevokeCluster implements rest.Backend.
func (b backend) RevokeCluster(ctx context.Context, name string) error {
	b.joining.Lock()
	defer b.joining.Unlock()
	if err := b.revokeCluster(ctx, name, b.clock.Now()); err != nil {
		return err
	}
	if err := b.server.RevokeCluster(name); err != nil {
		return notShut(err)
	}
	return nil
}

func notShut(err error) error {
	return wire.Problemf(507, "not-stored", "free some space or repair the disk, and restart the root", "the cluster's credentials could not be revoked", "it is told nothing any more, but it can still connect: %v", err)
}

// reconcileGone does at a start what a crash may have kept from being done, and
// forgets what is of no meaning any more.
func (r *Root) reconcileGone(ctx context.Context) error {
	for _, name := range r.server.Clusters() {
		cl := r.m.clusters[name]
		var err error
		switch {
		case cl == nil:
			err = r.server.RemoveCluster(name)
		case !cl.Revoked.IsZero():
			err = r.server.RevokeCluster(name)
		}
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t, now := r.m.begin(), r.clock.Now()
	for hash, g := range r.m.gone {
		if now.After(g.Until) {
			goneTable.Put(t.rows, hash, nil)
		}
	}
	if _, _, err := r.keeper.Parts(ctx, t); err != nil {
		return fmt.Errorf("forgetting old revocations: %w", err)
	}
	return nil
}

func noCluster(name string) error {
	return wire.Problemf(404, "no-such-cluster", "verge get clusters", "there is no such cluster", "%.63s is not known", name)
}

// removeCluster forgets a cluster, whose key does not count any more and whose
// name is free then; the passes that follow place elsewhere what it had.
func (c *core) removeCluster(ctx context.Context, name string, force bool, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return unstored(err)
	}
	cl := c.m.clusters[name]
	if cl == nil {
		return noCluster(name)
	}
	if !force {
		if err := c.m.mayRemove(name, cl); err != nil {
			return err
		}
	}
	g := &enroll.Gone{V: wire.Version, Name: name, Removed: true, At: now, Until: cl.expires().Add(pki.RenewGrace)}
	if err := c.note(ctx, cl.KeyHash, g, name, nil); err != nil {
		return err
	}
	delete(c.m.clusters, name)
	c.events.Add(time.Now(), tier, "cluster/"+name, "removed")
	c.tellCluster(wire.HookClusterRemoved, name, hooks.Ended, "removed", time.Now())
	c.log.Info("a cluster was removed", "cluster", name, "forced", force)
	c.notify()
	loop.Poke(c.wake)
	return nil
}

// mayRemove says what would be lost.
func (m *model) mayRemove(name string, cl *cluster) error {
	again := "or remove it all the same, what it runs is placed elsewhere: verge remove cluster/" + name + " --force"
	n := 0
	for _, i := range m.insts {
		if i.Cluster == name && !i.Draining {
			n++
		}
	}
	switch {
	case n > 0:
		return wire.Problemf(409, "cluster-in-use", "have them placed elsewhere first: verge drain cluster/"+name+"; "+again, "the cluster is in use", "%s has %s", name, wire.Count(n, "instance"))
	case cl.connected && !cl.suspect && cl.everHeard && cl.Cordon == nil:
		return wire.Problemf(409, "cluster-connected", "drain it (verge drain cluster/"+name+") or end its process first; "+again, "the cluster is connected", "%s may be given something to run at any moment", name)
	}
	return nil
}

// revokeCluster makes the key of a cluster count no more, and keeps the cluster.
func (c *core) revokeCluster(ctx context.Context, name string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return unstored(err)
	}
	cl := c.m.clusters[name]
	if cl == nil {
		return noCluster(name)
	}
	if !cl.Revoked.IsZero() {
		return wire.Problemf(409, "revoked-already", "let it join again ("+againCluster(name)+"), or remove it: verge remove cluster/"+name+" --force",
			"the key was revoked before", "that of cluster %s, at %s", name, cl.Revoked.UTC().Format(time.RFC3339))
	}
	g := &enroll.Gone{V: wire.Version, Name: name, At: now, Until: cl.expires().Add(pki.RenewGrace)}
	rec := cl.clusterRecord
	rec.Revoked = now
	if err := c.note(ctx, cl.KeyHash, g, name, &rec); err != nil {
		return err
	}
	cl.clusterRecord, cl.connected = rec, false
	c.events.Add(time.Now(), tier, "cluster/"+name, "its key was revoked")
	c.log.Info("the key of a cluster was revoked", "cluster", name)
	c.notify()
	loop.Poke(c.wake)
	return nil
}

// note stores together that a key does not count any more and what else happens
// to its holder. That the clusters are told follows from it. The mutex is held.
func (c *core) note(ctx context.Context, hash string, g *enroll.Gone, cluster string, rec *clusterRecord) error {
	t := c.m.begin()
	clusterTable.Put(t.rows, cluster, rec)
	goneTable.Put(t.rows, hash, g)
	if len(c.m.gone) >= maxGone {
		full := slices.MinFunc(records.SortedKeys(c.m.gone), func(a, b string) int {
			return cmp.Or(c.m.gone[a].Until.Compare(c.m.gone[b].Until), cmp.Compare(a, b))
		})
		goneTable.Put(t.rows, full, nil)
	}
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	c.refuse()
	return nil
}

// refuse has this process refuse the keys that do not count any more: the root itself
// those of clusters, its relay also those that clusters say of their workers. The
// mutex is held.
func (c *core) refuse() {
	own := c.m.ownRevoked()
	c.revoked.Set(own)
	for key, r := range c.m.revoked {
		if by, hash, _ := strings.Cut(key, "."); by == r.Cluster {
			own = append(own, pki.RevokedBy(by, hash))
		}
	}
	c.barred.Set(own)
	if c.relayed != nil {
		c.relayed()
	}
}

// ownRevoked are the keys of clusters that do not count any more.
func (m *model) ownRevoked() (out []string) {
	for hash := range m.gone {
		out = append(out, pki.RevokedBy("", hash))
	}
	return out
}

// takeRevoked takes over what a cluster reports about a key.
func (cl *cluster) takeRevoked(ch wire.Change) error {
	hash := strings.TrimPrefix(ch.Key, upRevoked)
	if ch.Deleted {
		delete(cl.revoked, hash)
		return nil
	}
	var r wire.Revocation
	if err := json.Unmarshal(ch.Value, &r); err != nil {
		return err
	}
	switch _, known := cl.revoked[hash]; {
	case len(hash) != len(pki.KeyHash(nil)) || strings.Trim(hash, "0123456789abcdef") != "":
		return fmt.Errorf("%.100q is not the hash of a key", hash)
	case !known && len(cl.revoked) >= maxRevoked:
		return fmt.Errorf("it has reported %d others", maxRevoked)
	}
	// It speaks for its own nodes only.
	cl.revoked[hash] = wire.Revocation{V: wire.Version, Until: r.Until.UTC(), Cluster: cl.Name}
	return nil
}

// revoke derives what all clusters are told about keys that do not count any more.
func (t *tx) revoke() {
	want := map[string]*wire.Revocation{}
	for hash, g := range t.m.gone {
		want[byRoot+"."+hash] = &wire.Revocation{V: wire.Version, Until: g.Until}
	}
	for _, name := range records.SortedKeys(t.m.clusters) {
		cl := t.m.clusters[name]
		if !cl.everHeard || cl.inbox.Ack().Inc == "" {
			// Not heard by this process yet: what it said before stays.
			for key, old := range t.m.revoked {
				if old.Cluster == name {
					want[key] = old
				}
			}
			continue
		}
		for hash, r := range cl.revoked {
			want[name+"."+hash] = &r
		}
	}
	if extra := len(want) - maxFar; extra > 0 {
		keys := records.SortedKeys(want)
		slices.SortStableFunc(keys, func(a, b string) int { return want[a].Until.Compare(want[b].Until) })
		for _, key := range keys[:extra] {
			delete(want, key)
		}
	}
	for key, r := range want {
		if old := t.m.revoked[key]; old == nil || !records.Same(old, r) {
			t.revoked[key], t.all = r, true
		}
	}
	for key := range t.m.revoked {
		if want[key] == nil {
			t.revoked[key], t.all = nil, true
		}
	}
}

// orphans ends what was delegated to a cluster that was removed: what it still
// runs counts for nobody, so new ones are made in its place.
func (t *tx) orphans(now time.Time) {
	for _, i := range t.instances("") {
		if i.Cluster != "" && t.m.clusters[i.Cluster] == nil {
			if app := t.m.apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil && app.Spec.Services[i.Service].Job != nil && ruleOf(app, i.Service).done(i) && !i.Draining {
				next := *i
				next.Cluster, next.Unreachable = "", false
				t.put(next) // what has completed need not run again
				continue
			}
			t.event("instance/"+i.ID, "Terminated: cluster %s was removed", i.Cluster)
			t.remove(i.ID, now)
		}
	}
}

// stopServing ends what serve began for a cluster.
func (c *core) stopServing(name string) {
	c.mu.Lock()
	s := c.served[name]
	delete(c.served, name)
	c.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// serveRenewals answers the renewals of a cluster.
func (c *core) serveRenewals(u *exchange.Upper) (stop func(), err error) {
	if c.renew == nil {
		return func() {}, nil
	}
	return u.ServeRenewals(exchange.ClusterSubjects().Renew, c.renew)
}
