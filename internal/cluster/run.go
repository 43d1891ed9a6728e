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

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/notify"
	"github.com/verge-edge/verge/internal/cluster/survey"
	"github.com/verge-edge/verge/internal/cluster/upgrader"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

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
	// HeartbeatInterval is the longest time between two reports of a worker; 0 is rpc.MaxHeartbeat.
	HeartbeatInterval time.Duration
	// Plugins that rank workers, see internal/plugin; their names differ.
	Plugins []plugin.Config
	// HooksAllow are networks to which hooks may go although they are usually not for them.
	HooksAllow []netip.Prefix
	// Ports are shared with the other clusters of this process; nil: there are none.
	Ports *fleet.PortBook
	// Clock by which certificates are judged; nil is the machine's.
	Clock *pki.Clock
	Log   *slog.Logger
}

// Cluster is a running cluster orchestrator.
type Cluster struct {
	*core.Core
	http     *backend.Backend
	opts     Options
	ca       *pki.ClusterAuthority
	id       *pki.Identity
	joined   atomic.Pointer[rpc.JoinReply] // what the root said last about how to reach it
	enroller *enroll.Enroller
	ownDue   atomic.Pointer[time.Time] // when to look at the own certificate again
	renewer  *enroll.Renewer
	server   *busserver.ClusterServer
	shelf    *objects.Store
	above    *remote.Remote // the root's objects
	api      *server.Server
	ledger   *enroll.Ledger
	clock    *pki.Clock

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
	joined.API = enroll.APIAddrs(joined, joined.Link, rpc.RootAPIPort)
	c := &Cluster{opts: o, clock: o.Clock, enroller: enroll.NewEnroller(pki.ClusterName(joined.Cluster))}
	c.joined.Store(&joined)
	sealKey, err := seal.Ensure(o.Dir)
	if err != nil {
		return nil, err
	}
	c.Core = &core.Core{ClusterName: joined.Cluster, Key: sealKey, Areas: o.Areas, SiteInfo: o.Site,
		Heartbeat: o.HeartbeatInterval,
		Ports:     o.Ports, Logger: o.Log, EventRing: obs.NewEvents(time.Now(), 0, "cluster/"+joined.Cluster)}
	c.EventRing.Log(o.Log)
	if c.ca, err = pki.OpenClusterAuthority(o.Dir); err != nil {
		return nil, err
	}
	c.clock.Own(c.ca.Cert())
	if c.id, err = pki.LoadIdentity(o.Dir); err != nil {
		return nil, err
	}
	c.id.Clock, c.id.Revoked = c.clock, &c.Core.Revoked
	if err := c.ownCert(); err != nil {
		return nil, err
	}
	key, err := enroll.Key(o.Dir)
	if err != nil {
		return nil, err
	}
	c.server, err = busserver.StartCluster(ctx, busserver.ClusterOptions{
		Dir: filepath.Join(o.Dir, "bus"), Name: c.ClusterName, Listen: o.LinkAddr, Log: o.Log,
		TLS:  c.id.LiveServerTLS(tls.RequireAndVerifyClientCert, c.admitWorker),
		Peer: c.busPeer, Closed: true,
		Upstream: &busserver.Upstream{
			Addresses: joined.Link, TLS: c.id.ClientTLS(joined.LinkName),
			JWT: func() string { return c.joined.Load().BusJWT }, Key: key,
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
	c.RecordStore, c.Local, c.Up = c.server.Store(), c.server.Local(), c.server.Up()
	c.above = remote.New(func() (*tls.Config, error) { return c.id.ClientTLS(joined.LinkName), nil },
		func() []string { return enroll.APIAddrs(*c.joined.Load(), joined.Link, rpc.RootAPIPort) })
	if c.shelf, err = objects.Open(ctx, objects.Options{Store: c.RecordStore, Blobs: c.server.Blobs(),
		Site:  c.ClusterName,
		Above: c.above, Restored: filepath.Join(o.Dir, backup.ObjectsDir), Log: o.Log}); err != nil {
		return nil, err
	}
	book := &people.Book{Store: c.RecordStore, Now: c.clock.Now, Site: c.ClusterName, Log: o.Log}
	c.ledger = &enroll.Ledger{Store: c.RecordStore, ServerName: pki.ClusterName(c.ClusterName), Pin: c.ca.Pin,
		NextPin: c.ca.NextPin, Administers: book.Administers}
	c.ledger.Member = func(r rpc.JoinRequest) bool { // asked by Join, which has the model
		w := c.M.Workers[r.Name]
		return w != nil && w.KeyHash == pki.KeyHash(r.PublicKey)
	}
	book.Less = func(user string) { c.ledger.CutOff(context.WithoutCancel(ctx), "user/"+user) }
	c.http = &backend.Backend{Core: c.Core, Book: book, Log: &people.Log{Store: c.RecordStore, Now: c.clock.Now},
		Node: c, Ledger: c.ledger, ObjectStore: c.shelf, Clock: c.clock}
	c.HeardWake = make(chan struct{}, 1)
	if err := controller.Init(ctx, c.Core, o.Details, time.Now()); err != nil {
		return nil, err
	}
	c.Marks = c.shelf.Marks
	if err := consult.SetPlugins(c.Core, o.Plugins); err != nil {
		return nil, err
	}
	secret, err := nameSecret(ctx, c.RecordStore)
	if err != nil {
		return nil, err
	}
	c.M.Peer = opaqueNames(secret)
	c.signsWith()
	netlease.NetworkOf(c.M).RelayOnly, c.Sign, c.M.Scheduler = o.RelayOnly, c.ca.SignLease, o.Scheduler
	if err := c.reconcileGone(ctx); err != nil {
		return nil, err
	}
	if err := notify.Open(ctx, c.Core, hooks.Options{Now: c.clock.Now, Allow: o.HooksAllow,
		Advertised: o.Advertise}); err != nil {
		return nil, err
	}
	c.server.OnWorker(func(name string, connected bool) { workers.OnWorker(c.Core, name, connected) })
	if err := c.serveAPI(); err != nil {
		return nil, err
	}
	stopWorkers, err := workers.ServeWorkers(c.Core, c.renewWorker)
	if err != nil {
		return nil, err
	}
	c.renewer = c.newRenewer(key)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = func() { cancel(); stopWorkers() }
	// Not before: thousands may wait, and what they say would find nobody.
	if err := c.server.Open(); err != nil {
		return nil, err
	}
	passes, fast := controller.Loops(c.Core)
	c.work.Go(func() { passes.Run(run) })
	c.work.Go(func() { fast.Run(run) })
	c.work.Go(func() { c.renewer.Run(run) })
	c.work.Go(func() { survey.RunSurvey(run, c.Core) })
	c.work.Go(func() { upgrader.RunUpgrade(run, c.Core) })
	c.work.Go(func() { c.http.RunPrograms(run) })
	c.work.Go(func() {
		if err := lower(c.Core, c.exchanged, c.renewer.Want).Run(run); err != nil && run.Err() == nil {
			c.Logger.Error("the exchange with the root ended", "error", err)
		}
	})
	return c, nil
}

// signsWith tells the model with which key this cluster signs. The caller has the model, or nobody
// else has the model yet.
func (c *Cluster) signsWith() {
	netlease.NetworkOf(c.M).Signs = c.ca.KeyID()
	up := uplink.Memory(c.M)
	up.Trusts, up.Signs, up.Expires = c.ca.TrustID(), c.ca.KeyID(), c.ca.Cert().NotAfter
}

// join makes this node a cluster of its root, once.
func join(ctx context.Context, o Options) (rpc.JoinReply, error) {
	return enroll.Node{
		Dir: o.Dir, Kind: tokens.KindCluster, Name: o.Name, TokenFile: o.TokenFile, Stdin: o.Stdin,
		Areas: o.Areas, Version: obs.Version(),
		Public: pki.EnsureClusterKey,
		Save: func(dir string, r rpc.JoinReply) error {
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
			chain, err := ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RoleCluster, Cluster: r.Cluster},
				PublicKey: nodeKey}, o.Clock.Now())
			if err != nil {
				return err
			}
			return pki.SaveIdentity(dir, chain, r.CA)
		},
		Warn: func(s string) { o.Log.Warn(s) }, Clock: o.Clock,
		Ask: func(ctx context.Context, have rpc.JoinReply) (rpc.JoinReply, error) { return askRoot(ctx, o, have) },
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
		Addr: c.opts.APIAddr, TLS: c.id.LiveServerTLS(tls.VerifyClientCertIfGiven, nil), Backend: c.http,
		Referrals: backend.Referrals,
		Log:       c.Logger, Version: obs.Version(), Metrics: obs.NewMetrics("cluster", c.allSamples),
		Notice: func(cs tls.ConnectionState) string {
			return enroll.Notice(cs, c.ca.NextPin(), c.ContextFile()+" of the cluster", c.clock.Now())
		},
		Authorize: c.callerOf, Site: c.ClusterName,
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
	return enroll.EnsureContext(c.ContextFile(), "https://"+c.Addrs()[0], c.ca.PEM(), c.clock.Now(), c.contextOf)
}

// Addrs implements backend.Node.
func (c *Cluster) Addrs() []string {
	return enroll.Reachable(c.opts.Advertise, c.api.Addr().String())
}

// linkAddrs are the addresses of the link.
func (c *Cluster) linkAddrs() []string { return enroll.Reachable(c.opts.Advertise, c.server.Addr()) }

// exchanged is told the outcome of every exchange with the root.
func (c *Cluster) exchanged(err error) {
	c.lookAtOwn()
	if err != nil && c.server.Refused() {
		c.renewer.LinkRefused(err)
	}
	c.renewer.Exchanged(err)
}

// Name of the cluster.
func (c *Cluster) Name() string { return c.ClusterName }

// Addr is where people reach the cluster's HTTP interface.
func (c *Cluster) Addr() string { return c.Addrs()[0] }

// Link is where workers connect, most likely address first.
func (c *Cluster) Link() []string { return c.linkAddrs() }

// NewWorkerToken makes a join token, as the HTTP interface does.
func (c *Cluster) NewWorkerToken(ctx context.Context) (string, error) {
	t, err := c.http.CreateToken(ctx, apiv1.TokenRequest{Kind: "worker"})
	return t.Token, err
}

// NewGatewayToken is NewWorkerToken for a worker that may be a gateway with TLS.
func (c *Cluster) NewGatewayToken(ctx context.Context) (string, error) {
	t, err := c.http.CreateToken(ctx, apiv1.TokenRequest{Kind: "worker", Gateway: true})
	return t.Token, err
}

// Close stops everything and waits for it. What runs on the workers goes on.
func (c *Cluster) Close() {
	if c.api != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := c.api.Close(ctx); err != nil {
			c.Logger.Debug("closing the HTTP interface", "error", err)
		}
		cancel()
	}
	if c.cancel != nil {
		c.cancel()
	}
	c.work.Wait()
	if c.Core != nil {
		if c.EndAsking != nil {
			consult.StopAsking(c.Core)
		}
		c.HookKeeper.Close()
	}
	if c.shelf != nil {
		c.shelf.Close()
		c.above.Close()
	}
	if c.server != nil {
		c.server.Close()
	}
}
