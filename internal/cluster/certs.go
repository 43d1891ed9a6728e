package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ownCert makes the certificate of the cluster's server, and its operator's
// context, again where half of their life is over or the cluster's authority has
// changed. Who asks for it is a look at the clock away from knowing that nothing
// is to be done.
func (c *Cluster) ownCert() error {
	now := c.clock.Now()
	if c.id != nil && now.Before(c.id.RenewAt()) && now.After(c.id.Leaf().NotBefore) &&
		c.id.TrustID() == c.ca.TrustID() && c.id.Issuers() == c.ca.Chain() {
		return nil
	}
	public, err := pki.EnsureKey(c.opts.Dir)
	if err != nil {
		return err
	}
	chain, err := c.ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RoleCluster, Cluster: c.ClusterName},
		PublicKey: public}, now)
	if err != nil {
		return fmt.Errorf("renewing the cluster's own certificate: %w", err)
	}
	if err := pki.SaveIdentity(c.opts.Dir, chain, c.ca.PEM()); err != nil {
		return err
	}
	if c.id == nil {
		return nil
	}
	c.Logger.Info("the cluster's own certificate is renewed")
	return c.id.Reload()
}

// keepOwn is ownCert and the operator's context, for the running cluster.
func (c *Cluster) keepOwn() {
	if err := errors.Join(c.ownCert(), c.writeContext()); err != nil {
		c.Logger.Error("renewing what this cluster certifies for itself, it is tried again", "error", err)
	}
}

// lookAtOwn calls keepOwn when that is due. It is called after every exchange.
func (c *Cluster) lookAtOwn() {
	now := c.clock.Now()
	if next := c.ownDue.Load(); next != nil && now.Before(*next) && now.After(c.id.Leaf().NotBefore) {
		return
	}
	c.keepOwn()
	// What could not be done now is not tried at every exchange.
	next := c.id.RenewAt()
	if soon := now.Add(time.Hour); next.Before(soon) {
		next = soon
	}
	c.ownDue.Store(&next)
}

// newRenewer keeps the certificate of the cluster's authority valid.
func (c *Cluster) newRenewer(key credentials.Key) *enroll.Renewer {
	name := c.joined.Load().LinkName
	return &enroll.Renewer{
		Clock: c.clock, Log: c.Logger, Server: name, TLS: c.id.ClientTLS(name),
		Held: func() enroll.Held {
			return enroll.Held{
				Made: c.ca.Cert().NotBefore, RenewAt: c.ca.RenewAt(), Expires: c.ca.Cert().NotAfter,
				ID: enroll.HeldID(c.ca.Cert().NotAfter, c.ca.TrustID()),
			}
		},
		Request: rpc.RenewRequest{V: wire.Version, Name: c.ClusterName, PublicKey: c.ca.PublicKey(),
			NatsKey: key.Public(),
			Version: obs.Version()},
		Prove: func(text string) ([]byte, error) { return pki.ProveCluster(c.opts.Dir, text) },
		Link: func(ctx context.Context, req rpc.RenewRequest) (rpc.JoinReply, error) {
			return exchange.Renew(ctx, c.Up, exchange.ClusterSubjects(), req)
		},
		API:     func() []string { return c.joined.Load().API },
		Take:    c.takeRenewal,
		Refused: c.refusedByRoot,
	}
}

// askRoot asks the root whether the key of this cluster still counts, before
// anything else is started.
func askRoot(ctx context.Context, o Options, have rpc.JoinReply) (rpc.JoinReply, error) {
	ca, err := pki.OpenClusterAuthority(o.Dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	id, err := pki.LoadIdentity(o.Dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	id.Clock = o.Clock
	key, err := enroll.Key(o.Dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	link := have.Link
	if len(o.Root) > 0 {
		link = o.Root
	}
	return enroll.Asker{
		API: enroll.APIAddrs(have, link, rpc.RootAPIPort), Server: have.LinkName, TLS: id.ClientTLS(have.LinkName),
		Prove: func(text string) ([]byte, error) { return pki.ProveCluster(o.Dir, text) },
	}.Ask(ctx, rpc.RenewRequest{
		V: wire.Version, Name: have.Cluster, PublicKey: ca.PublicKey(), NatsKey: key.Public(), Version: obs.Version(),
		Holds: enroll.HeldID(ca.Cert().NotAfter, ca.TrustID()),
	})
}

// takeRenewal begins to use what the root certified: the authority first, then
// what it signs for this process, and then the workers are told.
func (c *Cluster) takeRenewal(r rpc.JoinReply) error {
	if r.Cluster != c.ClusterName {
		return fmt.Errorf("it is for cluster %q", r.Cluster)
	}
	if r.Chain != "" {
		if err := pki.SaveCluster(c.opts.Dir, r.Chain, r.CA); err != nil {
			return err
		}
		if err := c.ca.Reload(); err != nil {
			return err
		}
		c.clock.Own(c.ca.Cert())
	}
	r = enroll.Moved(*c.joined.Load(), r)
	if err := enroll.SaveJoined(c.opts.Dir, r); err != nil {
		return err
	}
	c.joined.Store(&r)
	c.keepOwn()
	core.Do(c.Core, func(*state.Model) {
		c.signsWith()
		core.NudgeAll(c.Core) // their next report would bring it to them too
	})
	loop.Poke(c.UpChanged)
	loop.Poke(c.Wake) // with another key the leases are signed again
	return nil
}

// refusedByRoot is a refusal that asking again does not change. The site goes on;
// only where the root has placed elsewhere what runs here, it ends here.
func (c *Cluster) refusedByRoot(p *wire.Problem) {
	core.Do(c.Core, func(m *state.Model) { uplink.Memory(m).Refused = p })
	c.EventRing.Note(time.Now(), event.ClusterRefused, c.ClusterName,
		"the root refuses this cluster: "+p.Title+": "+p.Detail)
	if err := enroll.MarkRefused(c.opts.Dir, *p, c.ca.PublicKey()); err != nil {
		c.Logger.Error("noting that the root refuses this cluster", "error", err)
	}
	if p.Code != rpc.CodeRemoved && p.Code != rpc.CodeRevoked {
		return // a root that was restored from an older copy may know us again
	}
	if err := c.server.DropUpstream(); err != nil {
		c.Logger.Error("ending the link to the root", "error", err)
	}
	if p.Code == rpc.CodeRemoved {
		// As if it had delegated nothing: everything here ends in order.
		if err := uplink.FromRoot(c.Core).Take(context.Background(), true, nil, wire.Rev{}, nil); err != nil {
			c.Logger.Error("ending what the removed cluster ran", "error", err)
		}
	}
}

// Challenge implements backend.Node.
func (c *Cluster) Challenge(context.Context) (rpc.Challenge, error) {
	return c.enroller.Challenge(), nil
}

// Renew implements backend.Node: a worker that can no longer use the link, or a plugin,
// which has no other way.
func (c *Cluster) Renew(ctx context.Context, r rpc.RenewRequest) (rpc.JoinReply, error) {
	err := c.enroller.Check(r)
	var reply rpc.JoinReply
	if plugin, ok := strings.CutPrefix(r.Name, wire.PluginPrefix); err == nil && ok {
		reply, err = c.renewPlugin(ctx, plugin, r)
	} else if err == nil {
		reply, err = c.renewWorker(ctx, r.Name, r)
	}
	if err != nil {
		c.Logger.Warn("a renewal was refused", "name", r.Name, "error", err)
	}
	return reply, err
}

// renewWorker certifies the registered key of a worker again. name is proven, what
// the request says about it counts only if it is the same.
func (c *Cluster) renewWorker(ctx context.Context, name string, r rpc.RenewRequest) (rpc.JoinReply, error) {
	now := c.clock.Now()
	what := fmt.Sprintf("worker %.63s of cluster %s", name, c.ClusterName)
	return core.View2(c.Core, func(m *state.Model) (rpc.JoinReply, error) {
		if r.Name != name {
			return rpc.JoinReply{}, wire.Problemf(403, "another-name", "ask for the own name", "the renewal is refused",
				"%s asks for the certificate of %.63q", what, r.Name)
		}
		if g := m.Gone[pki.KeyHash(r.PublicKey)]; g != nil {
			return rpc.JoinReply{}, g.Problem(what, workers.AgainWorker)
		}
		w := m.Workers[name]
		if w == nil {
			return rpc.JoinReply{}, enroll.Unknown(what, workers.AgainWorker)
		}
		reg := enroll.Registered{What: what, Again: workers.AgainWorker, KeyHash: w.KeyHash, NatsKey: w.PublicKey,
			Expires: w.CertifiedUntil(), Renewed: w.Renewed}
		if err := reg.MayRenew(r, now); err != nil {
			return rpc.JoinReply{}, err
		}
		if reg.Keeps(r, now, c.ca.TrustID(), c.ca.Chain()) {
			return c.admitted(name, r.NatsKey, "")
		}
		reply, expires, err := c.certify(name, r.PublicKey, r.NatsKey, now)
		if err != nil {
			return rpc.JoinReply{}, err
		}
		rec := w.WorkerRecord
		rec.Expires = expires
		// Before it is given: a certificate of which nobody knows could outlive its
		// revocation.
		if err := workers.KeepWorker(ctx, c.Core, name, rec); err != nil {
			return rpc.JoinReply{}, fmt.Errorf("storing the renewal of worker %s: %w", name, err)
		}
		w.Renewed = time.Now()
		c.Logger.Info("a worker's certificate is renewed", "worker", name, "until", expires.UTC().Format(time.DateOnly))
		return reply, nil
	})
}

// certify makes all that a worker needs to be one.
func (c *Cluster) certify(name string, public []byte, natsKey string, now time.Time) (rpc.JoinReply, time.Time,
	error) {
	chain, err := c.ca.Issue(pki.LeafRequest{
		Subject:   pki.Subject{Role: pki.RoleWorker, Cluster: c.ClusterName, Name: name},
		PublicKey: public, DNSNames: []string{pki.WorkerName(c.ClusterName, c.M.Peer(name))},
	}, now)
	if err != nil {
		return rpc.JoinReply{}, time.Time{},
			wire.Problemf(400, "bad-key", "remove the worker's identity and join again",
				"the worker's key cannot be certified", "%v", err)
	}
	away, err := c.ca.Issue(pki.LeafRequest{
		Subject: pki.Subject{Role: pki.RoleWorker, Cluster: c.ClusterName, Name: c.M.Peer(name)}, PublicKey: public,
	}, now)
	if err != nil {
		return rpc.JoinReply{}, time.Time{}, fmt.Errorf("certifying the worker's other name: %w", err)
	}
	reply, err := c.admitted(name, natsKey, chain)
	reply.Away = away
	return reply, pki.ExpiresOf(chain), err
}

// admitted is what a worker is told that has the certificates of chain, or keeps
// those that it has.
func (c *Cluster) admitted(name, natsKey, chain string) (rpc.JoinReply, error) {
	jwt, err := c.server.AddWorker(name, natsKey)
	if err != nil {
		return rpc.JoinReply{}, fmt.Errorf("making the worker's credentials: %w", err)
	}
	return rpc.JoinReply{
		V: wire.Version, Chain: chain, CA: c.ca.PEM(), BusJWT: jwt, Link: c.linkAddrs(),
		LinkName: pki.ClusterName(c.ClusterName),
		Cluster:  c.ClusterName, Root: c.ca.RootID(), API: c.Addrs(),
	}, nil
}

// admitWorker lets only workers and plugins of this cluster in to the link: everybody
// who was ever certified under this root has a certificate that is valid here.
func (c *Cluster) admitWorker(cs tls.ConnectionState) error {
	_, err := c.busPeer(cs)
	return err
}

// busPeer is the user of the bus that the certificate of a worker or plugin names.
func (c *Cluster) busPeer(cs tls.ConnectionState) (string, error) {
	s, err := pki.PeerSubject(cs)
	switch {
	case err != nil:
		return "", err
	case s.Cluster == c.ClusterName && s.Role == pki.RoleWorker:
		return s.Name, nil
	case s.Cluster == c.ClusterName && s.Role == pki.RolePlugin:
		return credentials.PluginUser(s.Name), nil
	}
	return "", fmt.Errorf("%s is neither a worker nor a plugin of cluster %s", s, c.ClusterName)
}

// contextOf makes a context for the operator of this cluster.
func (c *Cluster) contextOf() (client.Context, error) {
	chain, key, err := c.ca.NewAdmin("admin", c.clock.Now())
	return client.Context{Name: c.ClusterName, CA: c.ca.PEM(), Cert: chain, Key: key,
		ServerName: pki.ClusterName(c.ClusterName)}, err
}

// LinkRefused implements backend.Node.
func (c *Cluster) LinkRefused() bool { return c.server.Refused() }
