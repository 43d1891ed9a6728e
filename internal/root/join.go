package root

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ClusterToken implements backend.Node.
func (r *Root) ClusterToken(ctx context.Context, name string, ttl time.Duration) (apiv1.TokenReply, error) {
	if !enroll.IsName(name) {
		return apiv1.TokenReply{}, wire.Problemf(400, "bad-name", "letters a-z, digits and -, at most 63",
			"this cannot be the name of a cluster", "%q", name)
	}
	if err := core.View(r.Core, func(m *state.Model) error {
		if cl := m.Clusters[name]; cl != nil && cl.Revoked.IsZero() {
			return wire.Problemf(409, "name-taken",
				"choose another name; or, if that one is gone for good: verge remove cluster/"+name, "the name is taken",
				"a cluster %s joined at %s", name, cl.Joined.Format(time.RFC3339))
		}
		return nil
	}); err != nil {
		return apiv1.TokenReply{}, err
	}
	return r.http.Ledger.NewJoin(ctx, tokens.KindCluster, name, r.apiAddrs(), ttl, r.clock.Now())
}

// Join implements backend.Node: a cluster wants in.
func (r *Root) Join(ctx context.Context, q rpc.JoinRequest) (rpc.JoinReply, error) {
	now := r.clock.Now()
	tok, used, err := r.http.Ledger.Check(ctx, q, tokens.KindCluster, now)
	if err != nil {
		r.Logger.Warn("a cluster's join was refused", "name", q.Name, "id", tok.ID, "error", err)
		return rpc.JoinReply{}, err
	}
	name := tok.Cluster
	hash := pki.KeyHash(q.PublicKey)
	// One join at a time, from the look at who is there to the note of who came.
	r.joining.Lock()
	defer r.joining.Unlock()
	if err := core.View(r.Core, func(m *state.Model) error { return mayJoin(m, name, hash) }); err != nil {
		return rpc.JoinReply{}, err
	}
	chain, err := r.ca.SignCluster(q.PublicKey, name, now)
	if err != nil {
		return rpc.JoinReply{}, wire.Problemf(400, "bad-key", "remove the cluster's identity and join again",
			"the cluster's key cannot be certified", "%v", err)
	}
	jwt, err := r.server.AddCluster(name, q.NatsKey)
	if err != nil {
		return rpc.JoinReply{}, fmt.Errorf("making the cluster's credentials: %w", err)
	}
	// Made here, because making it waits for whoever tells of links, and that waits for the lock
	// under which the loop looks for it.
	if _, err := r.LinkTo(name); err != nil {
		return rpc.JoinReply{}, fmt.Errorf("connecting to the account of cluster %s: %w", name, err)
	}
	again, err := r.register(ctx, state.ClusterRecord{V: wire.Version, Name: name, Areas: q.Areas, Joined: now,
		Version: q.Version, KeyHash: hash, Expires: pki.ExpiresOf(chain)}, used)
	if errors.Is(err, bus.ErrConflict) {
		return rpc.JoinReply{}, wire.Problemf(409, "token-used",
			"make a new one: verge token create --cluster "+name,
			"the join token was used by another node just now", "token %s", tok.ID)
	}
	if err != nil {
		return rpc.JoinReply{}, core.Unstored(err)
	}
	if err := r.serveJoined(name); err != nil { // an earlier join may not have come to it
		return rpc.JoinReply{}, err
	}
	what := "joined"
	if again {
		what = "joined again"
	}
	r.EventRing.Note(time.Now(), event.ClusterJoined, name, what)
	return r.joined(name, chain, jwt), nil
}

// mayJoin says why a cluster may not join with a key, nil if it may.
func mayJoin(m *state.Model, name, hash string) error {
	if other := holder(m, hash); other != "" && other != name {
		return wire.Problemf(409, "key-taken",
			"start it with an empty data directory, so that it makes keys of its own",
			"the key is another cluster's", "cluster %s joined with it", other)
	}
	if gone := m.Gone[hash]; gone != nil {
		return gone.Problem("cluster "+gone.Name,
			clusters.AgainCluster(name)+", and start it with an empty data directory, so that it makes another key")
	}
	if cl := m.Clusters[name]; cl != nil && cl.KeyHash != hash && cl.Revoked.IsZero() {
		return wire.Problemf(409, "name-taken",
			"make a token for another name: verge token create --cluster NAME", "the name is taken",
			"a cluster %s joined at %s, with another key", name, cl.Joined.Format(time.RFC3339))
	}
	return nil
}

// register stores a cluster that joins, together with the use of its token; again: it was here
// before, and what people said of it meanwhile stays.
func (r *Root) register(ctx context.Context, rec state.ClusterRecord, used bus.Op) (again bool, err error) {
	return core.View2(r.Core, func(m *state.Model) (bool, error) {
		was := m.Clusters[rec.Name]
		if was != nil {
			rec.Cordon, rec.Joined = was.Cordon, was.Joined
		}
		t := m.Begin()
		state.ClusterTable.Put(t.Rows, rec.Name, &rec)
		return was != nil, r.Keeper.Whole(ctx, t, used)
	})
}

// serveJoined serves a cluster that has joined, unless it is served already. joining is held.
func (r *Root) serveJoined(name string) error {
	if core.View(r.Core, func(*state.Model) bool { return r.Served[name].Stop != nil }) {
		return nil
	}
	return clusters.Serve(r.Core, name)
}

// holder is the cluster that joined with a key, "" if none did.
func holder(m *state.Model, hash string) string {
	for name, cl := range m.Clusters {
		if cl.KeyHash == hash {
			return name
		}
	}
	return ""
}

// NewClusterToken makes a join token, as the HTTP interface does.
func (r *Root) NewClusterToken(ctx context.Context, name string) (string, error) {
	t, err := r.ClusterToken(ctx, name, 0)
	return t.Token, err
}
