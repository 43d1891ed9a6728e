package cluster

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// rootAPIPort is the usual port of a root's HTTP interface, for clusters that
// joined before they were told.
const rootAPIPort = "8470"

// Options of a cluster orchestrator.
type Options struct {
	Dir string
	// Name, "" takes the one in the token.
	Name string
	// TokenFile and Stdin: see enroll.Node.
	TokenFile string
	Stdin     io.Reader
	// Root are the addresses of the root's link where they are not those of the
	// join any more; empty keeps them.
	Root []string
	// LinkAddr is where workers connect, APIAddr where people do (host:port).
	LinkAddr, APIAddr string
	// Advertise are the hosts (without port) by which others reach this machine.
	Advertise []string
	Areas     []string
	// Site is what its operator says about it: who that is, where it is, and labels
	// that all of its workers have.
	Site wire.Site
	// Details lets the root see workers, decisions and logs of this cluster.
	Details bool
	// RelayOnly tells other clusters of a relay instead of workers' addresses.
	RelayOnly bool
	// Scheduler of services that name none, of place.Schedulers or "plugin:" and the name
	// of one of Plugins; "" is rom.
	Scheduler string
	// HeartbeatInterval is the longest time between two reports of a worker; 0 is 10 s.
	HeartbeatInterval time.Duration
	// Plugins that rank workers, see internal/plugin; their names differ.
	Plugins []plugin.Config
	// HooksAllow are networks to which hooks may go although they are usually not for them.
	HooksAllow []netip.Prefix
	// Ports are shared with the other clusters of this process; nil: there are none.
	Ports *PortBook
	// Clock by which certificates are judged; nil is the machine's.
	Clock *pki.Clock
	Log   *slog.Logger
}

// Cluster is a running cluster orchestrator.
type Cluster struct {
	*core
	*people.Book
	*people.Log
	opts    Options
	ca      *pki.ClusterAuthority
	id      *pki.Identity
	joined  atomic.Pointer[wire.JoinReply] // what the root said last about how to reach it
	desk    *enroll.Desk
	ownDue  atomic.Pointer[time.Time] // when to look at the own certificate again
	renewer *enroll.Renewer
	server  *bus.ClusterServer
	shelf   *objects.Store
	above   *remote.Remote // the root's objects
	api     *server.Server
	ledger  *enroll.Ledger
	clock   *pki.Clock

	// programs is held while an upgrade begins, and while programs are removed; before mu.
	programs sync.Mutex

	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Start joins the root if that has not happened yet, and starts everything. The
// caller must Close it.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if err := enroll.OwnDir(o.Dir, "cluster"); err != nil {
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
	joined, err := join(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(o.Root) > 0 {
		joined.Link = o.Root
	}
	joined.API = enroll.APIAddrs(joined, joined.Link, rootAPIPort)
	c := &Cluster{opts: o, clock: o.Clock, desk: enroll.NewDesk(pki.ClusterName(joined.Cluster))}
	c.joined.Store(&joined)
	sealKey, err := seal.Ensure(o.Dir)
	if err != nil {
		return nil, err
	}
	c.core = &core{name: joined.Cluster, key: sealKey, areas: o.Areas, site: o.Site, lambda: o.HeartbeatInterval, ports: o.Ports, log: o.Log, events: obs.NewEvents(time.Now(), 0)}
	if c.ca, err = pki.OpenClusterAuthority(o.Dir); err != nil {
		return nil, err
	}
	c.clock.Own(c.ca.Cert())
	c.trusts, c.signs, c.expires = c.ca.TrustID(), c.ca.KeyID(), c.ca.Cert().NotAfter
	if c.id, err = pki.LoadIdentity(o.Dir); err != nil {
		return nil, err
	}
	c.id.Clock, c.id.Revoked = c.clock, &c.core.revoked
	if err := c.ownCert(); err != nil {
		return nil, err
	}
	key, err := enroll.Key(o.Dir)
	if err != nil {
		return nil, err
	}
	c.server, err = bus.StartCluster(ctx, bus.ClusterOptions{
		Dir: filepath.Join(o.Dir, "bus"), Name: c.name, Listen: o.LinkAddr, Log: o.Log,
		TLS:  c.id.LiveServerTLS(tls.RequireAndVerifyClientCert, c.admitWorker),
		Peer: c.busPeer,
		Upstream: &bus.Upstream{
			Addresses: joined.Link, TLS: c.id.ClientTLS(joined.LinkName), JWT: func() string { return c.joined.Load().BusJWT }, Key: key,
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	c.store, c.local, c.up = c.server.Store(), c.server.Local(), c.server.Up()
	c.above = remote.New(func() (*tls.Config, error) { return c.id.ClientTLS(joined.LinkName), nil }, func() []string { return enroll.APIAddrs(*c.joined.Load(), joined.Link, rootAPIPort) })
	if c.shelf, err = objects.Open(ctx, objects.Options{Store: c.store, Blobs: c.server.Blobs(), Site: c.name, Above: c.above, Restored: filepath.Join(o.Dir, backup.ObjectsDir), Log: o.Log}); err != nil {
		return nil, err
	}
	c.Book = &people.Book{Store: c.store, Now: c.clock.Now, Site: c.name, Log: o.Log}
	c.Log = &people.Log{Store: c.store, Now: c.clock.Now}
	c.ledger = &enroll.Ledger{Store: c.store, ServerName: pki.ClusterName(c.name), Pin: c.ca.Pin, NextPin: c.ca.NextPin, Administers: c.Book.Administers}
	c.ledger.Member = func(r wire.JoinRequest) bool { // asked by Join, which has the mutex
		w := c.m.Workers[r.Name]
		return w != nil && w.KeyHash == pki.KeyHash(r.PublicKey)
	}
	c.Book.Less = func(user string) { c.ledger.CutOff(context.WithoutCancel(ctx), "user/"+user) }
	c.heardWake = make(chan struct{}, 1)
	// Workers that connect already ask its name: what is there is filled, nothing is put in
	// its place.
	if err := c.init(ctx, o.Details, time.Now()); err != nil {
		return nil, err
	}
	c.marks = c.shelf.Marks
	if err := c.setPlugins(o.Plugins); err != nil {
		return nil, err
	}
	secret, err := nameSecret(ctx, c.store)
	if err != nil {
		return nil, err
	}
	c.m.Peer = opaqueNames(secret)
	c.m.net.Signs, c.m.net.RelayOnly, c.sign = c.ca.KeyID(), o.RelayOnly, c.ca.SignLease
	c.m.byDefault = o.Scheduler
	if err := c.reconcileGone(ctx); err != nil {
		return nil, err
	}
	if err := c.openHooks(ctx); err != nil {
		return nil, err
	}
	c.server.OnWorker(c.onWorker)
	if err := c.serveAPI(); err != nil {
		return nil, err
	}
	stopWorkers, err := c.serveWorkers(c.renewWorker)
	if err != nil {
		return nil, err
	}
	c.renewer = c.newRenewer(key)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = func() { cancel(); stopWorkers() }
	passes := loop.Loop{Wake: c.wake, Pass: c.pass, Pause: c.pause, Rest: c.rest, Log: c.log}
	c.work.Go(func() { passes.Run(run) })
	heeds := loop.Loop{Wake: c.heardWake, Pass: c.heed, Pause: c.heedPause, Rest: c.heedRest, Log: c.log}
	c.work.Go(func() { heeds.Run(run) })
	c.work.Go(func() { c.renewer.Run(run) })
	c.work.Go(func() { c.runSurvey(run) })
	c.work.Go(func() { c.runUpgrade(run) })
	c.work.Go(func() { c.runPrograms(run) })
	c.work.Go(func() {
		if err := c.lower(c.exchanged, c.renewer.Want).Run(run); err != nil && run.Err() == nil {
			c.log.Error("the exchange with the root ended", "error", err)
		}
	})
	return c, nil
}

// join makes this node a cluster of its root, once.
func join(ctx context.Context, o Options) (wire.JoinReply, error) {
	return enroll.Node{
		Dir: o.Dir, Kind: pki.KindCluster, Name: o.Name, TokenFile: o.TokenFile, Stdin: o.Stdin,
		Areas: o.Areas, Version: obs.Version(),
		Public: pki.EnsureClusterKey,
		Save: func(dir string, r wire.JoinReply) error {
			if err := pki.SaveCluster(dir, r.Chain, r.CA); err != nil {
				return err
			}
			ca, err := pki.OpenClusterAuthority(dir)
			if err != nil {
				return err
			}
			nodeKey, err := pki.EnsureKey(dir)
			if err != nil {
				return err
			}
			o.Clock.Own(ca.Cert())
			chain, err := ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RoleCluster, Cluster: r.Cluster}, PublicKey: nodeKey}, o.Clock.Now())
			if err != nil {
				return err
			}
			return pki.SaveIdentity(dir, chain, r.CA)
		},
		Warn: func(s string) { o.Log.Warn(s) }, Clock: o.Clock,
		Ask: func(ctx context.Context, have wire.JoinReply) (wire.JoinReply, error) { return askRoot(ctx, o, have) },
	}.Join(ctx)
}

// nameSecret is what opaque names are made with: random, and the same for as
// long as the store lives, since certificates carry the names.
func nameSecret(ctx context.Context, store bus.Store) (string, error) {
	const key = "names"
	e, err := store.Get(ctx, key)
	if err == nil {
		return string(e.Value), nil
	}
	if !errors.Is(err, bus.ErrNotFound) {
		return "", fmt.Errorf("reading the secret of opaque names: %w", err)
	}
	secret := wire.NewID()
	if _, err := store.Put(ctx, key, []byte(secret)); err != nil {
		return "", fmt.Errorf("storing the secret of opaque names: %w", err)
	}
	return secret, nil
}

// opaque is the name under which a worker of this cluster proves itself to
// routers of other clusters: it says nothing about the worker, and whoever is
// given it cannot list the others.
func opaque(secret, worker string) string {
	sum := sha256.Sum256([]byte(secret + "\x00" + worker))
	return "w-" + hex.EncodeToString(sum[:8])
}

// opaqueNames is opaque with a cache: a pass asks for the names of all workers. It is
// safe for concurrent use, since a rehearsal asks while the cluster goes on.
func opaqueNames(secret string) func(worker string) string {
	var mu sync.Mutex
	known := map[string]string{}
	return func(worker string) string {
		mu.Lock()
		defer mu.Unlock()
		name, ok := known[worker]
		if !ok {
			if len(known) >= maxNames {
				clear(known)
			}
			name = opaque(secret, worker)
			known[worker] = name
		}
		return name
	}
}

// maxNames bounds the names that are remembered, beyond the workers of a cluster.
const maxNames = 50_000

func (c *Cluster) serveAPI() (err error) {
	c.api, err = server.New(server.Options{
		Addr: c.opts.APIAddr, TLS: c.id.LiveServerTLS(tls.VerifyClientCertIfGiven, nil), Backend: backend{c}, Referrals: referrals,
		Log: c.log, Version: obs.Version(), Metrics: obs.NewMetrics("cluster", c.allSamples),
		Notice: func(cs tls.ConnectionState) string {
			return enroll.Notice(cs, c.ca.NextPin(), c.ContextFile()+" of the cluster", c.clock.Now())
		},
		Authorize: c.callerOf, Site: c.name,
	})
	if err != nil {
		return err
	}
	if err := c.api.Start(); err != nil {
		return err
	}
	return c.writeContext()
}

// ContextFile is where a first start leaves the operator's context.
func (c *Cluster) ContextFile() string { return filepath.Join(c.opts.Dir, "context.yaml") }

func (c *Cluster) writeContext() error {
	return enroll.EnsureContext(c.ContextFile(), "https://"+c.apiAddrs()[0], c.ca.PEM(), c.clock.Now(), c.contextOf)
}

// apiAddrs and linkAddrs are the addresses by which others reach this cluster.
func (c *Cluster) apiAddrs() []string {
	return enroll.Reachable(c.opts.Advertise, c.api.Addr().String())
}
func (c *Cluster) linkAddrs() []string { return enroll.Reachable(c.opts.Advertise, c.server.Addr()) }

// exchanged is told the outcome of every exchange with the root.
func (c *Cluster) exchanged(err error) {
	c.lookAtOwn()
	if err != nil && c.server.Refused() {
		c.renewer.LinkRefused(err)
	}
	c.renewer.Exchanged(err)
}

// Join implements rest.Backend: a worker wants in, or a plugin.
func (b backend) Join(ctx context.Context, r wire.JoinRequest) (wire.JoinReply, error) {
	now := b.clock.Now()
	// Held from the look at the token on: of many that join with one, each must find
	// the uses that the one before has left.
	b.mu.Lock()
	defer b.mu.Unlock()
	if tok, err := pki.ParseToken(r.Token); err == nil && tok.Kind == pki.KindPlugin {
		return b.joinPlugin(ctx, r, now)
	}
	tok, used, err := b.ledger.Check(ctx, r, pki.KindWorker, now)
	if err != nil {
		b.log.Warn("a worker's join was refused", "name", r.Name, "id", tok.ID, "error", err)
		return wire.JoinReply{}, err
	}
	if !enroll.IsName(r.Name) {
		return wire.JoinReply{}, wire.Problemf(400, "bad-name", "give it another with --name: letters a-z, digits and -, at most 63",
			"this cannot be the name of a worker", "%q", r.Name)
	}
	hash := pki.KeyHash(r.PublicKey)
	w := b.m.Workers[r.Name]
	if g := b.m.Gone[hash]; g != nil {
		return wire.JoinReply{}, g.Problem("worker "+g.Name+" of cluster "+b.name, againWorker+", and start it with an empty identity folder, so that it makes another key")
	}
	if w != nil && w.KeyHash != hash && w.Revoked.IsZero() {
		return wire.JoinReply{}, wire.Problemf(409, "name-taken", "give this one another name with --name; or, if that one is gone for good: verge remove worker/"+b.name+"/"+r.Name,
			"the name is taken", "cluster %s has a worker %s already, with another key, since %s", b.name, r.Name, w.Joined.Format(time.RFC3339))
	}
	for name, other := range b.m.Workers {
		// What is done about one of them would be done to the other: keys are revoked
		// by what they are.
		if name != r.Name && (other.KeyHash == hash || other.PublicKey == r.NatsKey) {
			return wire.JoinReply{}, wire.Problemf(409, "key-taken", "start it with an empty identity folder, so that it makes keys of its own",
				"the key is another worker's", "worker %s of cluster %s joined with it", name, b.name)
		}
	}
	if who := b.m.memberWith(hash, r.NatsKey, ""); who != "" {
		return wire.JoinReply{}, wire.Problemf(409, "key-taken", "start it with an empty identity folder, so that it makes keys of its own", "the key is another's", "%s of cluster %s joined with it", who, b.name)
	}
	reply, expires, err := b.certify(r.Name, r.PublicKey, r.NatsKey, now)
	if err != nil {
		return wire.JoinReply{}, err
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
	if err := b.keepWorker(ctx, r.Name, rec, used); err != nil {
		if errors.Is(err, bus.ErrConflict) {
			return wire.JoinReply{}, wire.Problemf(409, "token-used", "make a new one: verge token create --worker", "the join token was used by another node just now", "token %s", tok.ID)
		}
		return wire.JoinReply{}, fmt.Errorf("registering the worker: %w", err)
	}
	said := "joined"
	if w != nil {
		said = "joined again"
	}
	b.tellWorker(wire.HookWorkerJoined, r.Name, fmt.Sprintf("%s %d", said, now.UnixNano()), said, now)
	b.events.Add(time.Now(), b.m.Tier(), "worker/"+b.name+"/"+r.Name, said)
	b.log.Info("a worker "+said, "worker", r.Name)
	return reply, nil
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.name }

// Addr is where people reach the cluster's HTTP interface.
func (c *Cluster) Addr() string { return c.apiAddrs()[0] }

// Link is where workers connect, most likely address first.
func (c *Cluster) Link() []string { return c.linkAddrs() }

// NewWorkerToken makes a join token, as the HTTP interface does.
func (c *Cluster) NewWorkerToken(ctx context.Context) (string, error) {
	t, err := backend{c}.CreateToken(ctx, wire.TokenRequest{Kind: "worker"})
	return t.Token, err
}

// NewGatewayToken is NewWorkerToken for a worker that may be a gateway with TLS.
func (c *Cluster) NewGatewayToken(ctx context.Context) (string, error) {
	t, err := backend{c}.CreateToken(ctx, wire.TokenRequest{Kind: "worker", Gateway: true})
	return t.Token, err
}

// Close stops everything and waits for it. What runs on the workers goes on.
func (c *Cluster) Close() {
	if c.api != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := c.api.Close(ctx); err != nil {
			c.log.Debug("closing the HTTP interface", "error", err)
		}
		cancel()
	}
	if c.cancel != nil {
		c.cancel()
	}
	c.work.Wait()
	if c.core != nil {
		if c.endAsking != nil {
			c.stopAsking()
		}
		c.hooks.Close()
	}
	if c.shelf != nil {
		c.shelf.Close()
		c.above.Close()
	}
	if c.server != nil {
		c.server.Close()
	}
}
