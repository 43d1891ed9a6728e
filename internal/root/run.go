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
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/metrics"
	"github.com/verge-edge/verge/internal/root/notify"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
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
	*core.Core
	http    backend.Backend
	opts    Options
	ca      *pki.Authority
	id      *pki.Identity
	server  *busserver.RootServer
	objects *objects.Store
	api     *server.Server
	relay   *relay.Server // nil: none
	clock   *pki.Clock

	callers   core.Callers
	enroller  *enroll.Enroller
	ownDue    atomic.Pointer[time.Time] // when lookAtOwn is due by the clock; nil: not known yet
	lookAtOwn chan struct{}             // the own certificate may have to be renewed

	joining  sync.Mutex // taken before the lock of the model
	rotating sync.Mutex // a step of a rotation at a time; taken before owning
	owning   sync.Mutex // taken before the lock of the model
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
	r := &Root{opts: o, clock: o.Clock, enroller: enroll.NewEnroller(pki.RootName), lookAtOwn: make(chan struct{}, 1)}
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
	r.server, err = busserver.StartRoot(ctx, busserver.RootOptions{
		Dir: filepath.Join(o.Dir, "bus"), Listen: o.LinkAddr, Log: o.Log,
		TLS:  r.id.LiveServerTLS(tls.RequireAndVerifyClientCert, r.admitCluster),
		Peer: linkPeer,
	})
	if err != nil {
		return nil, err
	}
	r.Core = &core.Core{
		Logger: o.Log, EventRing: obs.NewEvents(time.Now(), 0, state.Tier), RecordStore: r.server.Store(), Key: key,
		LinkTo:       r.server.Cluster,
		RenewCluster: r.renewCluster, Heard: r.lookIfDue, Trusts: r.ca.TrustID(),
	}
	r.EventRing.Log(o.Log)
	r.id.Revoked = &r.Revoked
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := controller.Init(ctx, r.Core, o.DeadAfter, time.Now()); err != nil {
		return nil, err
	}
	if err := core.OpenNetwork(ctx, r.Core, o.NetworkPrefix, o.NetworkPool, o.ServicePool); err != nil {
		return nil, err
	}
	if r.objects, err = objects.Open(ctx, objects.Options{Store: r.RecordStore, Blobs: r.server.Blobs(),
		Quota:    func(namespace string) int64 { return backend.ObjectQuota(r.Core, namespace) },
		Restored: filepath.Join(o.Dir, backup.ObjectsDir), Log: o.Log}); err != nil {
		return nil, err
	}
	book := &people.Book{Store: r.RecordStore, Now: r.clock.Now, Log: o.Log}
	ledger := &enroll.Ledger{Store: r.RecordStore, ServerName: pki.RootName, Pin: r.ca.Pin, NextPin: r.ca.NextPin,
		Administers: book.Administers}
	book.Less = func(user string) { ledger.CutOff(context.WithoutCancel(ctx), "user/"+user) }
	r.http = backend.Backend{Core: r.Core, Book: book, Log: &people.Log{Store: r.RecordStore, Now: r.clock.Now},
		Node: r, Ledger: ledger, ObjectStore: r.objects, Clock: r.clock}
	if err := r.reconcileGone(ctx); err != nil {
		return nil, err
	}
	if err := notify.Open(ctx, r.Core, hooks.Options{Now: r.clock.Now, Allow: o.HooksAllow,
		Advertised: o.Advertise}); err != nil {
		return nil, err
	}
	r.server.OnLink(func(name string, up bool) { clusters.OnLink(r.Core, name, up) })
	for _, name := range records.SortedKeys(r.M.Clusters) {
		if err := clusters.Serve(r.Core, name); err != nil {
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
	passes := loop.Loop{Wake: r.Wake, Pass: func(ctx context.Context, now time.Time, changed bool) (bool, error) {
		return controller.Pass(ctx, r.Core, now, changed)
	}, Pause: func(settled bool) time.Duration { return controller.Pause(r.Core, settled) }, Log: r.Logger}
	r.work.Go(func() { passes.Run(run) })
	r.work.Go(func() { r.keepOwn(run) })
	r.work.Go(func() { clusters.AskClusters(run, r.Core) })
	return r, nil
}

func (r *Root) serveAPI() (err error) {
	r.api, err = server.New(server.Options{
		Addr: r.opts.APIAddr, TLS: r.id.LiveServerTLS(tls.VerifyClientCertIfGiven, nil), Backend: r.http,
		Referrals: backend.Referrals,
		Log:       r.Logger, Version: obs.Version(), Metrics: obs.NewMetrics("root", r.allSamples),
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

// Addr is where people reach the root's HTTP interface.
func (r *Root) Addr() string { return r.apiAddrs()[0] }

// Link is where clusters connect, most likely address first.
func (r *Root) Link() []string { return r.linkAddrs() }

// Ready workers that the clusters have reported, by cluster, where they can run
// something: one that has just joined is heard of before its engine is.
func (r *Root) Ready() map[string]int {
	out := map[string]int{}
	for _, c := range views.Clusters(r.Core) {
		if c.Connected && c.Aggregate != nil && len(c.Aggregate.Runtimes) > 0 {
			out[c.Name] = c.Aggregate.Workers
		}
	}
	return out
}

// Close stops everything and waits for it. What runs goes on.
func (r *Root) Close() {
	if r.api != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := r.api.Close(ctx); err != nil {
			r.Logger.Debug("closing the HTTP interface", "error", err)
		}
		cancel()
	}
	if r.relay != nil {
		r.relay.Close()
	}
	if r.Core != nil && r.Served != nil {
		clusters.StopServingAll(r.Core)
	}
	if r.cancel != nil {
		r.cancel()
	}
	r.work.Wait()
	if r.Core != nil {
		r.HookKeeper.Close()
	}
	if r.objects != nil {
		r.objects.Close()
	}
	if r.server != nil {
		r.server.Close()
	}
}

// SetDeadAfter changes how long a cluster may be away before what it runs is
// placed elsewhere; more than 0.
func (r *Root) SetDeadAfter(d time.Duration) {
	core.Do(r.Core, func(m *state.Model) { m.DeadAfter = d })
	loop.Poke(r.Wake)
}

// allSamples are samples, and those of what the process itself is known by.
func (r *Root) allSamples() []obs.Sample {
	return append(append(append(metrics.Samples(r.Core), r.objects.Samples()...), r.HookKeeper.Samples()...),
		obs.Expires("root", r.id.Leaf().NotAfter), obs.Expires("authority", r.ca.Certs()[0].NotAfter))
}
