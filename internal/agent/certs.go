package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// newRenewer keeps the worker's certificate valid. The engine sees the new one by
// itself. conn is set before it runs.
func (a *Agent) newRenewer(dir string, key credentials.Key, conn func() bus.Conn, refused func(*wire.Problem)) *enroll.Renewer {
	return &enroll.Renewer{
		Clock: a.id.Clock, Log: a.log, Server: a.joined.LinkName, TLS: a.id.ClientTLS(a.joined.LinkName),
		Held: func() enroll.Held {
			return enroll.Held{
				Made: a.id.Leaf().NotBefore, RenewAt: a.id.RenewAt(), Expires: a.id.Leaf().NotAfter,
				ID: enroll.HeldID(a.id.Leaf().NotAfter, a.id.TrustID(), a.id.Issuers()),
			}
		},
		Request: rpc.RenewRequest{V: wire.Version, Name: a.opts.Name, PublicKey: a.id.Leaf().RawSubjectPublicKeyInfo,
			NatsKey: key.Public(), Version: obs.Version()},
		Prove: func(text string) ([]byte, error) { return pki.Prove(dir, text) },
		Link: func(ctx context.Context, req rpc.RenewRequest) (rpc.JoinReply, error) {
			return exchange.Renew(ctx, conn(), exchange.WorkerSubjects(a.opts.Name), req)
		},
		API: func() []string { return enroll.APIAddrs(*a.current.Load(), a.joined.Link, rpc.ClusterAPIPort) },
		Take: func(r rpc.JoinReply) error {
			if r.Cluster != a.joined.Cluster {
				return fmt.Errorf("it is for cluster %q", r.Cluster)
			}
			if r.Chain != "" {
				if err := saveIdentity(dir, r); err != nil {
					return err
				}
				if err := a.id.Reload(); err != nil {
					return err
				}
				a.id.Clock.Own(a.id.Leaf())
			}
			r = enroll.Moved(*a.current.Load(), r)
			if err := enroll.SaveJoined(dir, r); err != nil {
				return err
			}
			a.current.Store(&r)
			loop.Poke(a.changed) // the cluster wants to know whom we trust now
			return nil
		},
		Refused: func(p *wire.Problem) {
			if err := enroll.MarkRefused(dir, *p, a.id.Leaf().RawSubjectPublicKeyInfo); err != nil {
				a.log.Error("noting that this worker was refused", "error", err)
			}
			refused(p)
		},
	}
}

// askCluster asks the cluster whether the key of this worker still counts, before
// anything else is started.
func askCluster(ctx context.Context, o Options, dir string, have rpc.JoinReply) (rpc.JoinReply, error) {
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	id.Clock = o.Clock
	key, err := enroll.Key(dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	link := have.Link
	if len(o.Cluster) > 0 {
		link = o.Cluster
	}
	return enroll.Asker{
		API: enroll.APIAddrs(have, link, rpc.ClusterAPIPort), Server: have.LinkName, TLS: id.ClientTLS(have.LinkName),
		Prove: func(text string) ([]byte, error) { return pki.Prove(dir, text) },
	}.Ask(ctx, rpc.RenewRequest{
		V: wire.Version, Name: id.Subject().Name, PublicKey: id.Leaf().RawSubjectPublicKeyInfo, NatsKey: key.Public(), Version: obs.Version(),
		Holds: enroll.HeldID(id.Leaf().NotAfter, id.TrustID(), id.Issuers()),
	})
}

// end is what becomes of a worker that the cluster does not want any more. One
// that was taken out ends what it runs, since that was placed elsewhere; one whose
// key was revoked goes on, and may join again.
func (a *Agent) end(ctx context.Context, p *wire.Problem) error {
	if p.Code != rpc.CodeRemoved {
		return p
	}
	a.handing.Lock()
	defer a.handing.Unlock()
	a.mu.Lock()
	o := (&wanted{revoked: a.revoked}).forEngine()
	a.mu.Unlock()
	if err := a.client.Apply(ctx, o); err != nil {
		a.log.Error("ending what ran here; verge worker stop does it too", "error", err)
	}
	return p
}

// revokedEntry is what the engine is told for a key of the desired state about a
// key that does not count any more; "" for any other.
func revokedEntry(kind, key, cluster string) string {
	switch kind {
	case wire.DesiredRevoked:
		return pki.RevokedBy(cluster, key)
	case wire.DesiredFarRevoked:
		by, hash, _ := strings.Cut(key, ".")
		if by == wire.RevokedByRoot {
			by = ""
		}
		return pki.RevokedBy(by, hash)
	}
	return ""
}

// refuseRevoked has this process refuse the revoked keys. The mutex is held.
func (a *Agent) refuseRevoked() { a.peers.Set(records.SortedKeys(a.revoked)) }
