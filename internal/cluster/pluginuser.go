package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// joinPlugin lets a process in that has a token for a plugin. The caller has the model.
func (c *Cluster) joinPlugin(ctx context.Context, r rpc.JoinRequest, now time.Time) (reply rpc.JoinReply, err error) {
	tok, used, err := c.ledger.Check(ctx, r, tokens.KindPlugin, now)
	if err != nil {
		c.Logger.Warn("a plugin's join was refused", "name", r.Name, "id", tok.ID, "error", err)
		return reply, err
	}
	if r.Name != tok.Plugin {
		return reply, wire.Problemf(403, "another-name", "make a token for it: verge token create --plugin NAME",
			"the join is refused", "the token is for plugin %s, this is %.63q", tok.Plugin, r.Name)
	}
	hash := pki.KeyHash(r.PublicKey)
	if g := c.M.Gone[hash]; g != nil {
		return reply, g.Problem("plugin "+r.Name+" of cluster "+c.ClusterName, consult.AgainPlugin)
	}
	key := r.Name + "." + hash
	if who := consult.Holds(c.M, hash, r.NatsKey, key); who != "" {
		return reply, wire.Problemf(409, "key-taken", "join with an empty --dir, so that it makes keys of its own",
			"the key is another's", "%s joined with it", who)
	}
	if advisor.Members.Rows(c.M.DB)[key] == nil && len(advisor.Members.Rows(c.M.DB)) >= consult.MaxMembers {
		return reply, wire.Problemf(409, "too-many",
			"revoke plugins that are not used any more: verge revoke plugin/NAME", "there are too many plugins",
			"%d processes have joined as one, at most %d may", len(advisor.Members.Rows(c.M.DB)), consult.MaxMembers)
	}
	if reply, err = c.certifyPlugin(r.Name, r.PublicKey, r.NatsKey, now); err != nil {
		return reply, err
	}
	m := &advisor.Member{V: wire.Version, Joined: now, NatsKey: r.NatsKey, KeyHash: hash,
		Expires: pki.ExpiresOf(reply.Chain)}
	if err := consult.KeepMember(ctx, c.Core, key, m, used); err != nil {
		if errors.Is(err, bus.ErrConflict) {
			return rpc.JoinReply{}, wire.Problemf(409, "token-used",
				"make a new one: verge token create --plugin "+r.Name,
				"the join token was used by another process just now", "token %s", tok.ID)
		}
		return rpc.JoinReply{}, fmt.Errorf("registering the plugin: %w", err)
	}
	c.EventRing.Note(time.Now(), event.PluginJoined, c.ClusterName, "a process joined as plugin "+r.Name)
	return reply, nil
}

// certifyPlugin makes all that a process needs to be a plugin.
func (c *Cluster) certifyPlugin(name string, public []byte, natsKey string, now time.Time) (rpc.JoinReply, error) {
	chain, err := c.ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RolePlugin, Cluster: c.ClusterName,
		Name: name},
		PublicKey: public}, now)
	if err != nil {
		return rpc.JoinReply{}, wire.Problemf(400, "bad-key", "join with an empty --dir",
			"the plugin's key cannot be certified", "%v", err)
	}
	return c.admittedPlugin(name, natsKey, chain)
}

// admittedPlugin is what a plugin is told that has the certificates of chain, or keeps
// those that it has.
func (c *Cluster) admittedPlugin(name, natsKey, chain string) (rpc.JoinReply, error) {
	jwt, err := c.server.AddPlugin(name, natsKey)
	if err != nil {
		return rpc.JoinReply{}, fmt.Errorf("making the plugin's credentials: %w", err)
	}
	return rpc.JoinReply{
		V: wire.Version, Chain: chain, CA: c.ca.PEM(), BusJWT: jwt, Link: c.linkAddrs(),
		LinkName: pki.ClusterName(c.ClusterName),
		Cluster:  c.ClusterName, Root: c.ca.RootID(), API: c.Addrs(),
	}, nil
}

// renewPlugin certifies the registered key of a plugin again, or says that it keeps what
// it has. That it has the key is proven.
func (c *Cluster) renewPlugin(ctx context.Context, name string, r rpc.RenewRequest) (rpc.JoinReply, error) {
	now := c.clock.Now()
	what := fmt.Sprintf("plugin %.63s of cluster %s", name, c.ClusterName)
	hash := pki.KeyHash(r.PublicKey)
	return core.View2(c.Core, func(_ *state.Model) (rpc.JoinReply, error) {
		if g := c.M.Gone[hash]; g != nil {
			return rpc.JoinReply{}, g.Problem(what, consult.AgainPlugin)
		}
		key := name + "." + hash
		m := advisor.Members.Rows(c.M.DB)[key]
		if m == nil {
			return rpc.JoinReply{}, enroll.Unknown(what, consult.AgainPlugin)
		}
		reg := enroll.Registered{What: what, Again: consult.AgainPlugin, KeyHash: m.KeyHash, NatsKey: m.NatsKey,
			Expires: m.Expires, Renewed: m.Renewed}
		if err := reg.MayRenew(r, now); err != nil {
			return rpc.JoinReply{}, err
		}
		if reg.Keeps(r, now, c.ca.TrustID(), c.ca.Chain()) {
			return c.admittedPlugin(name, r.NatsKey, "")
		}
		reply, err := c.certifyPlugin(name, r.PublicKey, r.NatsKey, now)
		if err != nil {
			return rpc.JoinReply{}, err
		}
		next := *m
		next.Expires, next.Renewed = pki.ExpiresOf(reply.Chain), time.Now()
		// Before it is given, as with a worker.
		if err := consult.KeepMember(ctx, c.Core, key, &next); err != nil {
			return rpc.JoinReply{}, fmt.Errorf("storing the renewal of plugin %s: %w", name, err)
		}
		c.Logger.Info("a plugin's certificate is renewed", "plugin", name, "until",
			next.Expires.UTC().Format(time.DateOnly))
		return reply, nil
	})
}

// RevokePlugin implements backend.Node.
func (c *Cluster) RevokePlugin(ctx context.Context, name string) error {
	gone, err := consult.RevokePlugin(ctx, c.Core, name, c.clock.Now())
	for _, g := range gone { // also of those before an error
		err = errors.Join(err, c.shut(*g))
	}
	return err
}
