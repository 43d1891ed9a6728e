package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Join implements backend.Node: a worker wants in, or a plugin.
func (c *Cluster) Join(ctx context.Context, r rpc.JoinRequest) (rpc.JoinReply, error) {
	now := c.clock.Now()
	// Held from the look at the token on: of many that join with one, each must find
	// the uses that the one before has left.
	return core.View2(c.Core, func(m *state.Model) (rpc.JoinReply, error) { return c.join(ctx, m, r, now) })
}

// join is Join with the model.
func (c *Cluster) join(ctx context.Context, m *state.Model, r rpc.JoinRequest, now time.Time) (rpc.JoinReply, error) {
	if tok, err := tokens.Parse(r.Token); err == nil && tok.Kind == tokens.KindPlugin {
		return c.joinPlugin(ctx, r, now)
	}
	tok, used, err := c.ledger.Check(ctx, r, tokens.KindWorker, now)
	if err != nil {
		c.Logger.Warn("a worker's join was refused", "name", r.Name, "id", tok.ID, "error", err)
		return rpc.JoinReply{}, err
	}
	if !enroll.IsName(r.Name) {
		return rpc.JoinReply{}, wire.Problemf(400, "bad-name",
			"give it another with --name: letters a-z, digits and -, at most 63",
			"this cannot be the name of a worker", "%q", r.Name)
	}
	hash := pki.KeyHash(r.PublicKey)
	w := m.Workers[r.Name]
	if g := m.Gone[hash]; g != nil {
		return rpc.JoinReply{}, g.Problem("worker "+g.Name+" of cluster "+c.ClusterName,
			workers.AgainWorker+", and start it with an empty identity folder, so that it makes another key")
	}
	if w != nil && w.KeyHash != hash && w.Revoked.IsZero() {
		return rpc.JoinReply{}, wire.Problemf(409, "name-taken",
			"give this one another name with --name; or, if that one is gone for good: verge remove worker/"+
				c.ClusterName+"/"+r.Name,
			"the name is taken", "cluster %s has a worker %s already, with another key, since %s", c.ClusterName,
			r.Name, w.Joined.Format(time.RFC3339))
	}
	for name, other := range m.Workers {
		// What is done about one of them would be done to the other: keys are revoked
		// by what they are.
		if name != r.Name && (other.KeyHash == hash || other.PublicKey == r.NatsKey) {
			return rpc.JoinReply{}, wire.Problemf(409, "key-taken",
				"start it with an empty identity folder, so that it makes keys of its own",
				"the key is another worker's", "worker %s of cluster %s joined with it", name, c.ClusterName)
		}
	}
	if who := consult.MemberWith(m, hash, r.NatsKey, ""); who != "" {
		return rpc.JoinReply{}, wire.Problemf(409, "key-taken",
			"start it with an empty identity folder, so that it makes keys of its own", "the key is another's",
			"%s of cluster %s joined with it", who, c.ClusterName)
	}
	reply, expires, err := c.certify(r.Name, r.PublicKey, r.NatsKey, now)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	rec := state.WorkerRecord{
		V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: r.Name, Version: r.Version}, Joined: now,
		PublicKey: r.NatsKey, KeyHash: hash, Expires: expires, Gateway: &wire.GatewayGrant{},
	}
	if w != nil { // it has joined again: what runs there is its own
		rec.Info, rec.Joined, rec.Cordon, rec.Gateway = w.Info, w.Joined, w.Cordon, w.Gateway
	}
	if tok.Gateway && !rec.Gateway.May() {
		rec.Gateway = &wire.GatewayGrant{Allowed: true, By: "join token " + tok.ID, At: now.Round(0)}
	}
	if err := workers.KeepWorker(ctx, c.Core, r.Name, rec, used); err != nil {
		if errors.Is(err, bus.ErrConflict) {
			return rpc.JoinReply{}, wire.Problemf(409, "token-used", "make a new one: verge token create --worker",
				"the join token was used by another node just now", "token %s", tok.ID)
		}
		return rpc.JoinReply{}, fmt.Errorf("registering the worker: %w", err)
	}
	said := "joined"
	if w != nil {
		said = "joined again"
	}
	c.EventRing.Note(time.Now(), event.WorkerJoined, event.WorkerName(c.ClusterName, r.Name), said)
	return reply, nil
}
