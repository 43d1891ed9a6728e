package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

// Plugins on the bus: a process joins with a token for a plugin as a worker does with
// its own, and gets a certificate and a user of the bus that hears the questions to this
// plugin and nothing else. Several processes may be one plugin: one of them is asked.

const (
	// keyMember + plugin.hash of its key: member.
	keyMember = "plugin."
	// maxMembers bounds the keys that count, of all plugins together.
	maxMembers = 256
	// againPlugin is what a plugin does that is not known any more.
	againPlugin = "verge token create --plugin NAME, then verge plugin join --token-file FILE with an empty --dir"
)

// member is a process that may be a plugin.
type member struct {
	V       int       `json:"v"`
	Joined  time.Time `json:"joined"`
	NatsKey string    `json:"nats_key"`
	KeyHash string    `json:"key_hash"`
	Expires time.Time `json:"expires"`
	renewed time.Time // the last time, by the monotonic clock of this process
}

// joinPlugin lets a process in that has a token for a plugin. The mutex is held.
func (b backend) joinPlugin(ctx context.Context, r wire.JoinRequest, now time.Time) (reply wire.JoinReply, err error) {
	tok, used, err := b.ledger.Check(ctx, r, pki.KindPlugin, now)
	if err != nil {
		b.log.Warn("a plugin's join was refused", "name", r.Name, "id", tok.ID, "error", err)
		return reply, err
	}
	if r.Name != tok.Plugin {
		return reply, wire.Problemf(403, "another-name", "make a token for it: verge token create --plugin NAME", "the join is refused", "the token is for plugin %s, this is %.63q", tok.Plugin, r.Name)
	}
	hash := pki.KeyHash(r.PublicKey)
	if g := b.m.Gone[hash]; g != nil {
		return reply, g.Problem("plugin "+r.Name+" of cluster "+b.name, againPlugin)
	}
	key := r.Name + "." + hash
	if who := b.m.holds(hash, r.NatsKey, key); who != "" {
		return reply, wire.Problemf(409, "key-taken", "join with an empty --dir, so that it makes keys of its own", "the key is another's", "%s joined with it", who)
	}
	if b.m.members[key] == nil && len(b.m.members) >= maxMembers {
		return reply, wire.Problemf(409, "too-many", "revoke plugins that are not used any more: verge revoke plugin/NAME", "there are too many plugins", "%d processes have joined as one, at most %d may", len(b.m.members), maxMembers)
	}
	if reply, err = b.certifyPlugin(r.Name, r.PublicKey, r.NatsKey, now); err != nil {
		return reply, err
	}
	m := &member{V: wire.Version, Joined: now, NatsKey: r.NatsKey, KeyHash: hash, Expires: pki.ExpiresOf(reply.Chain)}
	if err := b.keepMember(ctx, key, m, used); err != nil {
		if errors.Is(err, bus.ErrConflict) {
			return wire.JoinReply{}, wire.Problemf(409, "token-used", "make a new one: verge token create --plugin "+r.Name, "the join token was used by another process just now", "token %s", tok.ID)
		}
		return wire.JoinReply{}, fmt.Errorf("registering the plugin: %w", err)
	}
	b.events.Add(time.Now(), b.m.Tier(), "cluster/"+b.name, "a process joined as plugin "+r.Name)
	b.log.Info("a plugin joined", "plugin", r.Name)
	return reply, nil
}

// keepMember stores what is known of a process of a plugin; nil deletes it. The mutex is held.
func (c *core) keepMember(ctx context.Context, key string, m *member, also ...bus.Op) error {
	t := c.m.begin()
	memberTable.Put(t.Rows, key, m)
	return c.keeper.Whole(ctx, t, also...)
}

// certifyPlugin makes all that a process needs to be a plugin.
func (c *Cluster) certifyPlugin(name string, public []byte, natsKey string, now time.Time) (wire.JoinReply, error) {
	chain, err := c.ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RolePlugin, Cluster: c.name, Name: name}, PublicKey: public}, now)
	if err != nil {
		return wire.JoinReply{}, wire.Problemf(400, "bad-key", "join with an empty --dir", "the plugin's key cannot be certified", "%v", err)
	}
	return c.admittedPlugin(name, natsKey, chain)
}

// admittedPlugin is what a plugin is told that has the certificates of chain, or keeps
// those that it has.
func (c *Cluster) admittedPlugin(name, natsKey, chain string) (wire.JoinReply, error) {
	jwt, err := c.server.AddPlugin(name, natsKey)
	if err != nil {
		return wire.JoinReply{}, fmt.Errorf("making the plugin's credentials: %w", err)
	}
	return wire.JoinReply{
		V: wire.Version, Chain: chain, CA: c.ca.PEM(), BusJWT: jwt, Link: c.linkAddrs(), LinkName: pki.ClusterName(c.name),
		Cluster: c.name, Root: c.ca.RootID(), API: c.apiAddrs(),
	}, nil
}

// renewPlugin certifies the registered key of a plugin again, or says that it keeps what
// it has. That it has the key is proven.
func (c *Cluster) renewPlugin(ctx context.Context, name string, r wire.RenewRequest) (wire.JoinReply, error) {
	now := c.clock.Now()
	what := fmt.Sprintf("plugin %.63s of cluster %s", name, c.name)
	hash := pki.KeyHash(r.PublicKey)
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.m.Gone[hash]; g != nil {
		return wire.JoinReply{}, g.Problem(what, againPlugin)
	}
	key := name + "." + hash
	m := c.m.members[key]
	if m == nil {
		return wire.JoinReply{}, enroll.Unknown(what, againPlugin)
	}
	reg := enroll.Registered{What: what, Again: againPlugin, KeyHash: m.KeyHash, NatsKey: m.NatsKey, Expires: m.Expires, Renewed: m.renewed}
	if err := reg.MayRenew(r, now); err != nil {
		return wire.JoinReply{}, err
	}
	if reg.Keeps(r, now, c.ca.TrustID(), c.ca.Chain()) {
		return c.admittedPlugin(name, r.NatsKey, "")
	}
	reply, err := c.certifyPlugin(name, r.PublicKey, r.NatsKey, now)
	if err != nil {
		return wire.JoinReply{}, err
	}
	next := *m
	next.Expires, next.renewed = pki.ExpiresOf(reply.Chain), time.Now()
	// Before it is given, as with a worker.
	if err := c.keepMember(ctx, key, &next); err != nil {
		return wire.JoinReply{}, fmt.Errorf("storing the renewal of plugin %s: %w", name, err)
	}
	c.log.Info("a plugin's certificate is renewed", "plugin", name, "until", next.Expires.UTC().Format(time.DateOnly))
	return reply, nil
}

// holds says who has joined with one of two keys, but the member itself; "" if nobody.
func (m *model) holds(hash, natsKey, itself string) string {
	for name, w := range m.Workers {
		if w.KeyHash == hash || w.PublicKey == natsKey {
			return "worker " + name
		}
	}
	return m.memberWith(hash, natsKey, itself)
}

// memberWith is the plugin that has joined with one of two keys, but itself.
func (m *model) memberWith(hash, natsKey, itself string) string {
	for key, x := range m.members {
		if key != itself && (x.KeyHash == hash || x.NatsKey == natsKey) {
			return "plugin " + pluginOf(key)
		}
	}
	return ""
}

// pluginOf is the plugin of a key of members.
func pluginOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// RevokePlugin implements rest.Backend.
func (b backend) RevokePlugin(ctx context.Context, name string) error {
	gone, err := b.revokePlugin(ctx, name, b.clock.Now())
	for _, g := range gone { // also of those before an error
		err = errors.Join(err, b.shut(*g))
	}
	return err
}

// revokePlugin makes the keys of all processes that are a plugin count no more.
func (c *core) revokePlugin(ctx context.Context, name string, now time.Time) (gone []*enroll.Gone, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, time.Now()); err != nil {
		return nil, err
	}
	for _, key := range records.SortedKeys(c.m.members) {
		if pluginOf(key) != name {
			continue
		}
		m := c.m.members[key]
		g := &enroll.Gone{V: wire.Version, Name: name, Removed: true, At: now, NatsKey: m.NatsKey, Until: m.Expires.Add(pki.RenewGrace)}
		t := c.m.begin()
		memberTable.Put(t.Rows, key, nil)
		if err := c.note(ctx, t, m.KeyHash, g); err != nil {
			return gone, err
		}
		gone = append(gone, g)
	}
	if len(gone) == 0 {
		return nil, wire.Problemf(404, "no-such-plugin", "only plugins on the bus have keys, see verge events for those that joined", "there is no such plugin", "nobody has joined cluster %s as plugin %.63q", c.name, name)
	}
	c.events.Add(time.Now(), c.m.Tier(), "cluster/"+c.name, fmt.Sprintf("the keys of plugin %s were revoked: %s", name, wire.Count(len(gone), "process")))
	c.log.Info("the keys of a plugin were revoked", "plugin", name, "keys", len(gone))
	return gone, nil
}

// onBus is a plugin that is asked over the bus.
type onBus struct {
	conn bus.Conn
	name string
}

var _ asker = onBus{}

// Ask implements asker.
func (p onBus) Ask(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
	data, err := plugin.Encode(q, plugin.MaxQuestion)
	if err != nil {
		return nil, err
	}
	answer, err := p.conn.Request(ctx, bus.PluginSubject(p.name), data)
	switch {
	case err == nil:
		return plugin.Decode(q, answer)
	case ctx.Err() != nil:
		return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
	case errors.Is(err, bus.ErrNoResponder):
		return nil, &plugin.Error{Class: plugin.Unreachable, Text: "it is not connected to the bus"}
	}
	return nil, &plugin.Error{Class: plugin.Unreachable, Text: fmt.Sprintf("it cannot be reached: %v", err)}
}

// Close implements asker; the connection is the cluster's.
func (onBus) Close() {}

// newAsker prepares to ask a plugin.
func (c *core) newAsker(config plugin.Config) (asker, error) {
	if config.URL == plugin.OnBus {
		return onBus{c.local, config.Name}, nil
	}
	return plugin.NewHTTP(config)
}
