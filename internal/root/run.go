package root

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Options of a root.
type Options struct {
	Dir string
	// APIAddr is where people connect, LinkAddr where clusters do (host:port).
	APIAddr, LinkAddr string
	// Advertise are the hosts (without port) by which others reach this machine.
	Advertise []string
	// DeadAfter is how long a cluster may be away before what it runs is placed
	// elsewhere; 0 is 60 s.
	DeadAfter time.Duration
	// Relay that runs on the root's host.
	Relay wire.RelayConfig
	// NetworkPrefix is the unique local /48 of all instances; zero makes one at the
	// first start.
	NetworkPrefix netip.Prefix
	// NetworkPool is where the IPv4 networks of workers are from, ServicePool where
	// workers take the IPv4 addresses of services from; zero leaves what was chosen
	// at the first start, or the default.
	NetworkPool, ServicePool netip.Prefix
	// HooksAllow are networks to which hooks may go although they are usually not for
	// them: loopback, link-local, metadata.
	HooksAllow []netip.Prefix
	// Clock by which certificates are judged; nil is the machine's.
	Clock *pki.Clock
	Log   *slog.Logger
}

// Root is a running root.
type Root struct {
	*core
	*people.Book
	*people.Log
	opts   Options
	ca     *pki.Authority
	id     *pki.Identity
	server *bus.RootServer
	shelf  *objects.Store
	api    *server.Server
	relay  *relay.Server // nil: none
	ledger *enroll.Ledger
	clock  *pki.Clock

	callers   callers
	desk      *enroll.Desk
	ownDue    atomic.Pointer[time.Time] // when lookAtOwn is due by the clock; nil: not known yet
	lookAtOwn chan struct{}             // the own certificate may have to be renewed

	joining  sync.Mutex // taken before core.mu
	rotating sync.Mutex // a step of a rotation at a time; taken before owning
	owning   sync.Mutex // taken before core.mu
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// Start starts a root; the first time it makes its authority. The caller must
// Close it.
func Start(ctx context.Context, o Options) (_ *Root, err error) {
	if o.DeadAfter == 0 {
		o.DeadAfter = time.Minute
	}
	if err := enroll.OwnDir(o.Dir, "root"); err != nil {
		return nil, err
	}
	if err := atomicfile.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("preparing the data directory: %w", err)
	}
	if err := errors.Join(enroll.Free(o.LinkAddr, "--link"), enroll.Free(o.APIAddr, "--api")); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = pki.OpenClock(o.Dir)
	}
	r := &Root{opts: o, clock: o.Clock, desk: enroll.NewDesk(pki.RootName), lookAtOwn: make(chan struct{}, 1)}
	if r.ca, err = pki.OpenAuthority(o.Dir, r.clock.Now()); err != nil {
		return nil, err
	}
	r.clock.Own(r.ca.Certs()[0])
	if err := r.ownCert(); err != nil {
		return nil, err
	}
	key, err := seal.Ensure(o.Dir)
	if err != nil {
		return nil, err
	}
	r.server, err = bus.StartRoot(ctx, bus.RootOptions{
		Dir: filepath.Join(o.Dir, "bus"), Listen: o.LinkAddr, Log: o.Log, TLS: r.id.LiveServerTLS(tls.RequireAndVerifyClientCert, r.admitCluster),
		Peer: linkPeer,
	})
	if err != nil {
		return nil, err
	}
	r.core = &core{
		log: o.Log, events: obs.NewEvents(time.Now(), 0), store: r.server.Store(), key: key, link: r.server.Cluster,
		renew: r.renewCluster, heard: r.lookIfDue, trusts: r.ca.TrustID(),
	}
	r.id.Revoked = &r.revoked
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := r.init(ctx, o.DeadAfter, time.Now()); err != nil {
		return nil, err
	}
	if err := r.openNetwork(ctx, o.NetworkPrefix, o.NetworkPool, o.ServicePool); err != nil {
		return nil, err
	}
	if r.shelf, err = objects.Open(ctx, objects.Options{Store: r.store, Blobs: r.server.Blobs(), Quota: r.objectQuota, Restored: filepath.Join(o.Dir, backup.ObjectsDir), Log: o.Log}); err != nil {
		return nil, err
	}
	r.Book = &people.Book{Store: r.store, Now: r.clock.Now, Log: o.Log}
	r.Log = &people.Log{Store: r.store, Now: r.clock.Now}
	r.ledger = &enroll.Ledger{Store: r.store, ServerName: pki.RootName, Pin: r.ca.Pin, NextPin: r.ca.NextPin, Administers: r.Book.Administers}
	r.Book.Less = func(user string) { r.ledger.CutOff(context.WithoutCancel(ctx), "user/"+user) }
	if err := r.reconcileGone(ctx); err != nil {
		return nil, err
	}
	if err := r.openHooks(ctx); err != nil {
		return nil, err
	}
	r.server.OnLink(r.onLink)
	for _, name := range records.SortedKeys(r.m.clusters) {
		if err := r.serve(name); err != nil {
			return nil, err
		}
	}
	if err := r.serveAPI(); err != nil {
		return nil, err
	}
	if err := r.serveRelay(); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	passes := loop.Loop{Wake: r.wake, Pass: r.pass, Pause: r.pause, Log: r.log}
	r.work.Go(func() { passes.Run(run) })
	r.work.Go(func() { r.keepOwn(run) })
	r.work.Go(func() { r.askClusters(run) })
	return r, nil
}

func (r *Root) serveAPI() (err error) {
	r.api, err = server.New(server.Options{
		Addr: r.opts.APIAddr, TLS: r.id.LiveServerTLS(tls.VerifyClientCertIfGiven, nil), Backend: backend{r}, Referrals: referrals,
		Log: r.log, Version: obs.Version(), Metrics: obs.NewMetrics("root", r.allSamples),
		Notice: func(cs tls.ConnectionState) string {
			return enroll.Notice(cs, r.ca.NextPin(), r.ContextFile()+" of the root", r.clock.Now())
		},
		Authorize: r.callerOf,
	})
	if err != nil {
		return err
	}
	if err := r.api.Start(); err != nil {
		return err
	}
	return r.writeContext()
}

// ContextFile is where a first start leaves the administrator's context.
func (r *Root) ContextFile() string { return filepath.Join(r.opts.Dir, "context.yaml") }

// apiAddrs and linkAddrs are the addresses by which others reach this root.
func (r *Root) apiAddrs() []string  { return enroll.Reachable(r.opts.Advertise, r.api.Addr().String()) }
func (r *Root) linkAddrs() []string { return enroll.Reachable(r.opts.Advertise, r.server.Addr()) }

func (r *Root) clusterToken(ctx context.Context, name string, ttl time.Duration) (wire.TokenReply, error) {
	if !enroll.IsName(name) {
		return wire.TokenReply{}, wire.Problemf(400, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a cluster", "%q", name)
	}
	r.mu.Lock()
	taken := r.m.clusters[name]
	r.mu.Unlock()
	if taken != nil && taken.Revoked.IsZero() {
		return wire.TokenReply{}, wire.Problemf(409, "name-taken", "choose another name; or, if that one is gone for good: verge remove cluster/"+name, "the name is taken", "a cluster %s joined at %s", name, taken.Joined.Format(time.RFC3339))
	}
	return r.ledger.NewJoin(ctx, pki.KindCluster, name, r.apiAddrs(), ttl, r.clock.Now())
}

// Join implements rest.Backend: a cluster wants in.
func (b backend) Join(ctx context.Context, q wire.JoinRequest) (wire.JoinReply, error) {
	now := b.clock.Now()
	tok, used, err := b.ledger.Check(ctx, q, pki.KindCluster, now)
	if err != nil {
		b.log.Warn("a cluster's join was refused", "name", q.Name, "id", tok.ID, "error", err)
		return wire.JoinReply{}, err
	}
	name := tok.Cluster
	hash := pki.KeyHash(q.PublicKey)
	// One join at a time, from the look at who is there to the note of who came.
	b.joining.Lock()
	defer b.joining.Unlock()
	b.mu.Lock()
	old, gone, other := b.m.clusters[name], b.m.gone[hash], b.m.holder(hash)
	b.mu.Unlock()
	if other != "" && other != name {
		return wire.JoinReply{}, wire.Problemf(409, "key-taken", "start it with an empty data directory, so that it makes keys of its own",
			"the key is another cluster's", "cluster %s joined with it", other)
	}
	if gone != nil {
		return wire.JoinReply{}, gone.Problem("cluster "+gone.Name, againCluster(name)+", and start it with an empty data directory, so that it makes another key")
	}
	if old != nil && old.KeyHash != hash && old.Revoked.IsZero() {
		return wire.JoinReply{}, wire.Problemf(409, "name-taken", "make a token for another name: verge token create --cluster NAME", "the name is taken", "a cluster %s joined at %s, with another key", name, old.Joined.Format(time.RFC3339))
	}
	chain, err := b.ca.SignCluster(q.PublicKey, name, now)
	if err != nil {
		return wire.JoinReply{}, wire.Problemf(400, "bad-key", "remove the cluster's identity and join again", "the cluster's key cannot be certified", "%v", err)
	}
	jwt, err := b.server.AddCluster(name, q.NatsKey)
	if err != nil {
		return wire.JoinReply{}, fmt.Errorf("making the cluster's credentials: %w", err)
	}
	rec := clusterRecord{V: wire.Version, Name: name, Areas: q.Areas, Joined: now, Version: q.Version, KeyHash: hash, Expires: pki.ExpiresOf(chain)}
	b.mu.Lock()
	if old != nil {
		rec.Cordon, rec.Joined = old.Cordon, old.Joined // it has joined again: what runs there is its own
	}
	t := b.m.begin()
	clusterTable.Put(t.rows, name, &rec)
	err = b.keeper.Whole(ctx, t, used)
	b.mu.Unlock()
	if err != nil {
		if errors.Is(err, bus.ErrConflict) {
			return wire.JoinReply{}, wire.Problemf(409, "token-used", "make a new one: verge token create --cluster "+name, "the join token was used by another node just now", "token %s", tok.ID)
		}
		return wire.JoinReply{}, unstored(err)
	}
	if old == nil {
		// Made here, because making it waits for whoever tells of links, and that
		// waits for the mutex under which the loop looks for it.
		if _, err := b.link(name); err != nil {
			return wire.JoinReply{}, fmt.Errorf("connecting to the account of cluster %s: %w", name, err)
		}
		b.mu.Lock()
		b.m.clusters[name] = newCluster(rec, time.Now())
		b.mu.Unlock()
		if err := b.serveJoined(name); err != nil {
			return wire.JoinReply{}, err
		}
		b.events.Add(time.Now(), tier, "cluster/"+name, "joined")
		b.tellCluster(wire.HookClusterJoined, name, "joined "+rec.Joined.UTC().Format(time.RFC3339Nano), "joined", now)
		b.log.Info("a cluster joined", "cluster", name)
	} else {
		b.mu.Lock()
		old.rejoined(rec)
		b.mu.Unlock()
		if err := b.serveJoined(name); err != nil { // an earlier join may not have come to it
			return wire.JoinReply{}, err
		}
		b.events.Add(time.Now(), tier, "cluster/"+name, "joined again")
		b.tellCluster(wire.HookClusterJoined, name, "joined again "+now.UTC().Format(time.RFC3339Nano), "joined again", now)
		b.log.Info("a cluster joined again", "cluster", name)
	}
	return b.joined(name, chain, jwt), nil
}

// rejoined notes that a cluster has joined again. With another key it has an empty directory:
// what the one before it had reported and was told says nothing about it. The mutex is held.
func (cl *cluster) rejoined(rec clusterRecord) {
	if cl.KeyHash != rec.KeyHash {
		cl.inbox.Restart()
		cl.has, cl.current, cl.matched, cl.held = wire.Rev{}, false, false, nil
	}
	cl.clusterRecord = rec
}

// serveJoined serves a cluster that has joined, unless it is served already. joining is held.
func (r *Root) serveJoined(name string) error {
	r.mu.Lock()
	_, served := r.served[name]
	r.mu.Unlock()
	if served {
		return nil
	}
	return r.serve(name)
}

// holder is the cluster that joined with a key, "" if none did.
func (m *model) holder(hash string) string {
	for name, cl := range m.clusters {
		if cl.KeyHash == hash {
			return name
		}
	}
	return ""
}

// Addr is where people reach the root's HTTP interface.
func (r *Root) Addr() string { return r.apiAddrs()[0] }

// Link is where clusters connect, most likely address first.
func (r *Root) Link() []string { return r.linkAddrs() }

// Ready workers that the clusters have reported, by cluster, where they can run
// something: one that has just joined is heard of before its engine is.
func (r *Root) Ready() map[string]int {
	out := map[string]int{}
	for _, c := range r.clusters() {
		if c.Connected && c.Aggregate != nil && len(c.Aggregate.Runtimes) > 0 {
			out[c.Name] = c.Aggregate.Workers
		}
	}
	return out
}

// NewClusterToken makes a join token, as the HTTP interface does.
func (r *Root) NewClusterToken(ctx context.Context, name string) (string, error) {
	t, err := r.clusterToken(ctx, name, 0)
	return t.Token, err
}

// Close stops everything and waits for it. What runs goes on.
func (r *Root) Close() {
	if r.api != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := r.api.Close(ctx); err != nil {
			r.log.Debug("closing the HTTP interface", "error", err)
		}
		cancel()
	}
	if r.relay != nil {
		r.relay.Close()
	}
	if r.core != nil && r.served != nil {
		r.stopServingAll()
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.work.Wait()
	if r.core != nil {
		r.hooks.Close()
	}
	if r.shelf != nil {
		r.shelf.Close()
	}
	if r.server != nil {
		r.server.Close()
	}
}
