package root

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// lookAtLeast is the longest time between two looks at the own certificate: the
	// clock may be set meanwhile, so half of its life is not waited for in one go.
	lookAtLeast = 24 * time.Hour
	lookAtMost  = time.Minute // the shortest, after something that failed
)

// ownRequest is what the certificate of the root's server is to be for.
func (r *Root) ownRequest() (pki.LeafRequest, error) {
	public, err := pki.EnsureKey(r.opts.Dir)
	if err != nil {
		return pki.LeafRequest{}, err
	}
	req := pki.LeafRequest{Subject: pki.Subject{Role: pki.RoleRoot}, PublicKey: public,
		DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, h := range r.opts.Advertise {
		if ip := net.ParseIP(h); ip != nil {
			req.IPs = append(req.IPs, ip)
		} else {
			req.DNSNames = append(req.DNSNames, h)
		}
	}
	return req, nil
}

// ownCert makes the root's own certificate where it is missing, where half of its
// life is over, or where it would not fit the authority or the addresses that the
// root is reached by.
func (r *Root) ownCert() error {
	req, err := r.ownRequest()
	if err != nil {
		return err
	}
	now := r.clock.Now()
	if r.id == nil {
		id, err := pki.LoadIdentity(r.opts.Dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil {
			id.Clock = r.clock
			r.id = id
		}
	}
	if r.id != nil && now.Before(r.id.RenewAt()) && now.After(r.id.Leaf().NotBefore) &&
		r.id.TrustID() == r.ca.TrustID() && covers(r.id, req) {
		return nil
	}
	chain, err := r.ca.Issue(req, now)
	if err != nil {
		return fmt.Errorf("making the root's certificate: %w", err)
	}
	if err := pki.SaveIdentity(r.opts.Dir, chain, r.ca.PEM()); err != nil {
		return err
	}
	if r.id != nil {
		return r.id.Reload()
	}
	if r.id, err = pki.LoadIdentity(r.opts.Dir); err == nil {
		r.id.Clock = r.clock
	}
	return err
}

func covers(id *pki.Identity, req pki.LeafRequest) bool {
	for _, name := range req.DNSNames {
		if id.Leaf().VerifyHostname(name) != nil {
			return false
		}
	}
	for _, ip := range req.IPs {
		if id.Leaf().VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	return true
}

// keepOwn renews what the root certifies for itself, when it is due, until ctx is
// done. A look after a day costs nothing.
func (r *Root) keepOwn(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.lookAtOwn:
		case <-timer.C:
		}
		pause := lookAtMost
		if err := r.own(); err != nil {
			r.Logger.Error("renewing what the root certifies for itself, it is tried again", "error", err)
		} else {
			pause = min(max(r.id.RenewAt().Sub(r.clock.Now()), lookAtMost), lookAtLeast)
			due := r.id.RenewAt()
			r.ownDue.Store(&due)
		}
		timer.Reset(pause)
	}
}

// lookIfDue has the own certificate looked at when it is due by the clock: it may
// have been set since the last look. It costs next to nothing if not.
func (r *Root) lookIfDue() {
	due := r.ownDue.Load()
	if due == nil || r.clock.Now().Before(*due) {
		return
	}
	r.ownDue.Store(nil)
	select {
	case r.lookAtOwn <- struct{}{}:
	default:
	}
}

// own brings the certificate of the root's server and the administrator's context
// up to date. One at a time.
func (r *Root) own() error {
	r.owning.Lock()
	defer r.owning.Unlock()
	return errors.Join(r.ownCert(), r.writeContext())
}

func (r *Root) writeContext() error {
	return enroll.EnsureContext(r.ContextFile(), "https://"+r.apiAddrs()[0], r.ca.PEM(), r.clock.Now(),
		func() (client.Context, error) {
			chain, key, err := r.ca.NewAdmin("admin", r.clock.Now())
			return client.Context{Name: "root", CA: r.ca.PEM(), Cert: chain, Key: key, ServerName: pki.RootName}, err
		})
}

// Challenge implements backend.Node.
func (r *Root) Challenge(context.Context) (rpc.Challenge, error) {
	return r.enroller.Challenge(), nil
}

// Renew implements backend.Node: a cluster that can no longer use the link.
func (r *Root) Renew(ctx context.Context, q rpc.RenewRequest) (rpc.JoinReply, error) {
	err := r.enroller.Check(q)
	var reply rpc.JoinReply
	if err == nil {
		reply, err = r.renewCluster(ctx, q.Name, q)
	}
	if err != nil {
		r.Logger.Warn("a cluster's renewal was refused", "name", q.Name, "error", err)
	}
	return reply, err
}

// renewCluster certifies the registered key of a cluster again. name is proven.
func (r *Root) renewCluster(ctx context.Context, name string, q rpc.RenewRequest) (rpc.JoinReply, error) {
	now := r.clock.Now()
	what := fmt.Sprintf("cluster %.63s", name)
	return core.View2(r.Core, func(m *state.Model) (rpc.JoinReply, error) {
		if q.Name != name {
			return rpc.JoinReply{}, wire.Problemf(403, "another-name", "ask for the own name", "the renewal is refused",
				"%s asks for the certificate of %.63q", what, q.Name)
		}
		if g := m.Gone[pki.KeyHash(q.PublicKey)]; g != nil {
			return rpc.JoinReply{}, g.Problem(what, clusters.AgainCluster(name))
		}
		cl := m.Clusters[name]
		if cl == nil {
			return rpc.JoinReply{}, enroll.Unknown(what, clusters.AgainCluster(name))
		}
		jwt, err := r.server.ClusterToken(name, q.NatsKey)
		nats := q.NatsKey
		if err != nil {
			nats = "" // its key for the bus is another one: see MayRenew
		}
		reg := enroll.Registered{What: what, Again: clusters.AgainCluster(name), KeyHash: cl.KeyHash, NatsKey: nats,
			Expires: cl.ExpiresAt(), Renewed: cl.Renewed}
		if err := reg.MayRenew(q, now); err != nil {
			return rpc.JoinReply{}, err
		}
		if reg.Keeps(q, now, r.ca.TrustID()) {
			return r.joined(name, "", jwt), nil
		}
		chain, err := r.ca.SignCluster(q.PublicKey, name, now)
		if err != nil {
			return rpc.JoinReply{}, err
		}
		rec := cl.ClusterRecord
		rec.Expires, rec.Version = pki.ExpiresOf(chain), q.Version
		// Before it is given: a certificate of which nobody knows could outlive its
		// revocation.
		t := m.Begin()
		state.ClusterTable.Put(t.Rows, name, &rec)
		if err := r.Keeper.Whole(ctx, t); err != nil {
			return rpc.JoinReply{}, core.Unstored(err)
		}
		cl.Renewed = time.Now()
		r.Logger.Info("a cluster's certificate is renewed", "cluster", name, "until",
			rec.Expires.UTC().Format(time.DateOnly))
		return r.joined(name, chain, jwt), nil
	})
}

// joined is all that a cluster needs to be one.
func (r *Root) joined(name, chain, jwt string) rpc.JoinReply {
	return rpc.JoinReply{
		V: wire.Version, Chain: chain, CA: r.ca.PEM(), BusJWT: jwt, Link: r.linkAddrs(), LinkName: pki.RootName,
		Cluster: name, Root: r.ca.ID(), API: r.apiAddrs(),
	}
}

// admitCluster lets only clusters in to the link.
func (r *Root) admitCluster(cs tls.ConnectionState) error {
	name, err := linkPeer(cs)
	if err == nil {
		r.callers.Note(name)
	}
	return err
}

// linkPeer is the cluster that the certificate of a link names.
func linkPeer(cs tls.ConnectionState) (string, error) {
	s, err := pki.PeerSubject(cs)
	if err == nil && s.Role != pki.RoleCluster {
		err = fmt.Errorf("%s is not a cluster", s)
	}
	return s.Cluster, err
}
