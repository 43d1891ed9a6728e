package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/agent/enginehost"
	"github.com/verge-edge/verge/internal/agent/probe"
	"github.com/verge-edge/verge/internal/agent/upgrader"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/leftover"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of the heartbeat interval, the time between two reports.
const (
	minHeartbeat = time.Second
	maxHeartbeat = rpc.MaxHeartbeat
	// beats of four heartbeats, while nothing happens, want no answer but of the bus: that
	// the orchestrator behind it answers is known within forty seconds.
	beats = 3
	// statePoll is how long one question to the engine is held.
	statePoll = time.Minute
)

// Options of an Agent.
type Options struct {
	Dir, Name string
	// TokenFile and Stdin: see enroll.Node.
	TokenFile string
	Stdin     io.Reader
	// Cluster are the addresses of the cluster's link where they are not those of
	// the join any more; empty keeps them.
	Cluster []string
	// DataAddr and GatewayAddr are where the engine listens, "" is nowhere;
	// Advertise is how others reach the former ("": to be found, "none": not).
	DataAddr, Advertise, GatewayAddr string
	// Gateway is the rest of how it is a gateway.
	Gateway  engineapi.GatewayConfig
	Capacity api.Resources
	Labels   map[string]string
	// HostPaths are the directories of which instances may use what is below.
	HostPaths []string
	// HostUsers are the users of the machine that instances may run as.
	HostUsers []string
	// Devices that instances may have; Capacity counts those that are a resource.
	Devices []engineapi.DeviceNode
	// Missing says in words which devices are not there.
	Missing []string
	// Probe looks anew which Devices there are, and what is missing; nil: nobody looks.
	Probe func() (found []engineapi.DeviceNode, missing []string)
	// Network is wire.NetworkAuto, NetworkOverlay or NetworkLoopback; "" is the last.
	Network string
	// Tunnel is how packets for other workers travel in the service network, and Relay
	// is set where the worker forwards those of others.
	Tunnel wire.TunnelConfig
	Relay  wire.RelayConfig
	// Containerd is the address of containerd's socket; "" is the usual one.
	Containerd string
	// Pull is how images are fetched.
	Pull engineapi.PullConfig
	// Upgrades are the programs that the cluster may bring.
	Upgrades upgrader.Upgrades
	// Location of this machine; nil: not known.
	Location *api.Point
	// Relabel brings other labels while it runs; nil: they stay.
	Relabel <-chan map[string]string
	// Ready is called, once, when the worker works: its engine has its orders, be
	// the cluster there or not. Nil is nobody.
	Ready func()
	// Engine makes the engine of this process; nil starts one of its own.
	Engine func(cfg engineapi.EngineConfig) (engineclient.Client, error)
	// LogFormat and LogLevel are handed on to the engine.
	LogFormat, LogLevel string
	// Clock by which certificates are judged; nil is the machine's.
	Clock *pki.Clock
	Log   *slog.Logger
}

// Agent is a running agent.
type Agent struct {
	opts   Options
	log    *slog.Logger
	joined rpc.JoinReply // as it was when this process started
	// current is what the cluster said last, with its token for the bus.
	current atomic.Pointer[rpc.JoinReply]
	id      *pki.Identity
	peers   pki.Revoked // keys that the cluster must not have
	client  engineclient.Client
	keeper  *enginehost.Keeper // nil where the engine is in this process
	// outdated says that the engine works with other settings than ours, "" if not.
	outdated string
	changed  chan struct{}
	pulse    chan struct{} // somebody wants to know whether the engine answers
	source   *exchange.MemSource
	sealKey  string // the public part of it

	// handing is held while orders are given to the engine, so that none are
	// replaced by older ones; taken before mu.
	handing sync.Mutex

	mu     sync.Mutex // guards below
	labels map[string]string
	wanted
	info   engineapi.EngineInfo
	engine string // id of the run of the engine that info is of
	// noGateway: the cluster gives no certificates to this gateway.
	noGateway bool
	// gone are the ids of the devices that are not there any more, doubted of those that were
	// absent at the last look for the first time.
	gone, doubted []string
	// impaired is why what is known of the instances does not count, "" if it does.
	impaired string
	seq      uint64             // of what was heard of the engine last
	said     wire.WorkerInfo    // what the cluster heard last
	saidUses *wire.Uses         // which services it heard are used
	features []string           // of the kernel, as they were at the start
	upgrader *upgrader.Upgrader // it has a mutex of its own
	link     link
}

// Run joins the cluster if that has not happened yet, and works until ctx is
// done. What runs goes on after that. An error of type *upgrader.Succession says that another
// program is to go on in this process.
func Run(ctx context.Context, o Options) error {
	if err := enroll.OwnDir(o.Dir, "worker"); err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	unlock, err := Lock(o.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	up := &upgrader.Upgrader{}
	if o.Engine == nil {
		if up, err = upgrader.Open(o.Dir, o.Upgrades, upgrader.TakeMarker(), o.Log); err != nil {
			return err
		}
	}
	a := &Agent{
		upgrader: up,
		opts:     o, labels: o.Labels, log: o.Log, changed: make(chan struct{}, 1), pulse: make(chan struct{},
			1), source: exchange.NewMemSource(),
		features: probe.Features("/"),
	}
	idDir := filepath.Join(o.Dir, engineapi.IdentityDir)
	if err := atomicfile.MkdirAll(idDir, 0o700); err != nil {
		return fmt.Errorf("preparing the identity: %w", err)
	}
	if o.Clock == nil {
		o.Clock = pki.OpenClock(idDir)
	}
	a.opts.Clock = o.Clock
	if a.joined, err = join(ctx, o, idDir); err != nil {
		return err
	}
	if len(o.Cluster) > 0 {
		a.joined.Link = o.Cluster
	}
	a.current.Store(&a.joined)
	if a.id, err = pki.LoadIdentity(idDir); err != nil {
		return err
	}
	a.id.Clock, a.id.Revoked = a.opts.Clock, &a.peers
	a.id.Clock.Own(a.id.Leaf())
	if s := a.id.Subject(); s.Name != o.Name {
		return wire.Problemf(0, "name-changed", "start it with --name "+s.Name+", or with another --data-dir",
			"this data directory belongs to another worker", "%s holds the identity of %s", o.Dir, s)
	}
	sealKey, err := seal.Ensure(idDir)
	if err != nil {
		return err
	}
	a.sealKey = sealKey.Public()
	if err := a.startEngine(ctx); err != nil {
		return err
	}
	if err := a.loadOrders(); err != nil {
		return err
	}
	first, err := a.client.State(ctx, 0, 0)
	if err != nil {
		return fmt.Errorf("asking the engine for its state: %w", err)
	}
	a.take(first, true)
	key, err := enroll.Key(idDir)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.upgrader.Succeed = func(s *upgrader.Succession) {
		if a.keeper != nil {
			s.Child = a.keeper.PID()
		}
		cancel(s)
	}
	var conn bus.Conn
	renewer := a.newRenewer(idDir, key, func() bus.Conn { return conn }, func(p *wire.Problem) { cancel(p) })
	conn, err = busconn.Dial(ctx, busconn.DialOptions{
		Name: o.Name, Addresses: a.joined.Link, JWT: func() string { return a.current.Load().BusJWT }, Key: key, Log: o.Log,
		TLS:     func() (*tls.Config, error) { return a.id.ClientTLS(a.joined.LinkName), nil },
		Also:    func() []string { return a.current.Load().Link },
		Refused: renewer.LinkRefused,
	})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	defer conn.Close()
	if err := a.work(work, conn, renewer, first.Seq); err != nil {
		return err
	}
	var next *upgrader.Succession
	if errors.As(context.Cause(work), &next) && ctx.Err() == nil {
		return next
	}
	var problem *wire.Problem
	if errors.As(context.Cause(work), &problem) && ctx.Err() == nil {
		return a.end(ctx, problem)
	}
	return nil
}

// work runs the exchange with the cluster, and what belongs to it, until ctx is
// done; an error means that it could not begin.
func (a *Agent) work(ctx context.Context, conn bus.Conn, renewer *enroll.Renewer, seq uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if a.keeper != nil {
		defer a.keeper.StandDown() // when nobody stands in any more
	}
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { a.watch(ctx, seq) })
	watch.Go(func() { renewer.Run(ctx) })
	watch.Go(func() { a.watchPulse(ctx) })
	watch.Go(func() { a.relabel(ctx) })
	watch.Go(func() { a.watchDevices(ctx) })
	watch.Go(func() { a.tellDemand(ctx, conn) })
	if engine, ok := a.client.(*engineclient.Remote); ok && a.opts.Engine == nil {
		watch.Go(func() {
			above := a.clusterObjects()
			defer above.Close()
			a.upgrader.Run(ctx, engine, above)
		})
	}
	if a.opts.Ready != nil {
		a.opts.Ready()
	}
	if err := a.lower(conn, renewer).Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Lock makes sure that this is the only agent in a data directory.
func Lock(dir string) (unlock func(), err error) {
	unlock, err = atomicfile.Lock(filepath.Join(dir, "agent.lock"))
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, wire.Problemf(0, "in-use", "stop it first, or choose another --data-dir", "the data directory is in use", "another verge worker works in %s", dir)
	}
	return unlock, err
}

// Stop stops the instances of the worker in dir by their stop rules, and then
// its engine. Its agent must have ended: it would start the engine again. What
// ran starts again with the next agent.
func Stop(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, engineapi.EngineConfigFile)); err != nil {
		return wire.Problemf(0, "no-worker",
			"give the --data-dir that verge worker was started with; verge worker clean ends what is left of one whose folder was removed",
			"there is no worker in this folder", "%v", err)
	}
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	err = stopEngine(ctx, dir)
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != "not-running" {
		return err
	}
	// An engine that was killed has left its instances.
	cfg, cerr := engineconfig.Read(dir)
	if cerr != nil {
		return errors.Join(err, cerr)
	}
	o := leftover.Options{Dir: dir, Containerd: cfg.Containerd, AgentLocked: true}
	left, lerr := leftover.Find(ctx, o)
	if lerr != nil || len(left) == 0 {
		return errors.Join(err, lerr)
	}
	for i := range left {
		if err := leftover.Remove(ctx, o, &left[i]); err != nil {
			return fmt.Errorf("ending what this worker has left: %w", err)
		}
	}
	return nil
}

// stopEngine is Stop for who has the lock.
// stopAgain is after how many looks an engine is told again to stop: the one that was
// told may have been upgraded meanwhile, and its successor knows nothing of it.
const stopAgain = 20

func stopEngine(ctx context.Context, dir string) error {
	engine := engineclient.NewRemote(dir)
	defer engine.Close()
	if _, err := engine.State(ctx, 0, 0); err != nil {
		return wire.Problemf(0, "not-running", "nothing needs to be done", "this worker does not run",
			"no engine answers in %s", dir)
	}
	if err := engine.Shutdown(ctx); err != nil {
		return fmt.Errorf("stopping the engine: %w", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		if _, err := engine.State(ctx, 0, 0); err != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the engine to end: %w", ctx.Err())
		case <-tick.C:
		}
		if n%stopAgain == 0 {
			_ = engine.Shutdown(ctx) // what it says of that is said by the next look
		}
	}
}

func join(ctx context.Context, o Options, idDir string) (rpc.JoinReply, error) {
	return enroll.Node{
		Dir: idDir, Kind: tokens.KindWorker, Name: o.Name, TokenFile: o.TokenFile, Stdin: o.Stdin,
		Version: obs.Version(), Public: pki.EnsureKey,
		Save: saveIdentity,
		Warn: func(s string) { o.Log.Warn(s) }, Clock: o.Clock,
		Ask: func(ctx context.Context, have rpc.JoinReply) (rpc.JoinReply, error) {
			return askCluster(ctx, o, idDir, have)
		},
	}.Join(ctx)
}

// saveIdentity stores the certificates that a worker was given.
func saveIdentity(dir string, r rpc.JoinReply) error {
	if err := pki.SaveAway(dir, r.Away, r.CA); err != nil {
		return err
	}
	return pki.SaveIdentity(dir, r.Chain, r.CA)
}

func (a *Agent) startEngine(ctx context.Context) error {
	cfg := engineapi.EngineConfig{
		V: wire.Version, Worker: a.opts.Name, Cluster: a.joined.Cluster, DataAddr: a.opts.DataAddr, GatewayAddr: a.opts.GatewayAddr, Gateway: a.opts.Gateway,
		Capacity: a.opts.Capacity, HostPaths: a.opts.HostPaths, HostUsers: a.opts.HostUsers, Devices: a.opts.Devices, Network: a.opts.Network, Tunnel: a.opts.Tunnel, Relay: a.opts.Relay, Containerd: a.opts.Containerd, Pull: a.opts.Pull, Path: os.Getenv("PATH"), LogFormat: a.opts.LogFormat, LogLevel: a.opts.LogLevel,
	}
	had, err := engineconfig.Read(a.opts.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Warn("the engine's former configuration cannot be read", "error", err)
	}
	if a.opts.Engine != nil {
		if err := engineconfig.Write(a.opts.Dir, cfg); err != nil {
			return err
		}
		a.client, err = a.opts.Engine(cfg)
		return err
	}
	remote := engineclient.NewRemote(a.opts.Dir)
	a.client, a.keeper = remote, enginehost.New(a.opts.Dir, a.log)
	running, err := a.keeper.Running(ctx, remote)
	if err != nil {
		return err
	}
	if running && had.V != 0 {
		if a.opts.Probe != nil {
			cfg = adopted(had, cfg)
			a.opts.Devices, a.opts.Capacity = cfg.Devices, cfg.Capacity
		}
		if a.outdated = engineconfig.Outdated(had, cfg); a.outdated != "" {
			// What runs decides what may be placed here, and what is on disk says
			// what runs.
			a.log.Warn(a.outdated)
			a.opts.Capacity, a.opts.HostPaths, a.opts.Devices, cfg = had.Capacity, had.HostPaths, had.Devices, had
		}
	}
	if err := engineconfig.Write(a.opts.Dir, cfg); err != nil {
		return err
	}
	return a.keeper.Ensure(ctx, remote)
}

// loadOrders reads the orders that the engine was given last: they are its file,
// and this process keeps none of its own.
func (a *Agent) loadOrders() error {
	o, err := orders.At(a.opts.Dir).Load()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if errors.Is(err, orders.ErrDamaged) {
		// The engine reports that too. Without a revision everything is fetched.
		a.log.Warn("the engine's orders cannot be read, all of them are fetched again", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the engine's orders: %w", err)
	}
	a.wanted = wantedOf(o)
	a.refuseRevoked()
	return nil
}

func entries(list []string) map[string]struct{} {
	out := make(map[string]struct{}, len(list))
	for _, e := range list {
		out[e] = struct{}{}
	}
	return out
}

// lower is the exchange with the cluster.
func (a *Agent) lower(conn bus.Conn, renewer *enroll.Renewer) *exchange.Lower {
	known, answers := false, false // touched by the goroutine of the exchange alone
	return &exchange.Lower{
		Conn: conn, Subjects: exchange.WorkerSubjects(a.opts.Name), Desired: (*desired)(a), Observed: a.source,
		Changed: a.changed, Status: a.status, Min: minHeartbeat, Max: maxHeartbeat, Beats: beats, Answer: a.answer, Farewell: true, Log: a.log,
		Renew: renewer.Want, OnAck: a.acked, Uses: a.uses, OnFilter: a.routesFiltered, OnGateway: a.gatewayRefused,
		Partial: (*desired)(a).partial,
		OnReply: func(err error) {
			renewer.Exchanged(err)
			a.answered(err)
			if err == nil {
				a.upgrader.Answered()
			}
			if known && answers == (err == nil) {
				return
			}
			known, answers = true, err == nil
			if answers {
				a.log.Info("ready: the cluster answers", "cluster", a.joined.Cluster)
			} else {
				a.log.Warn("the cluster does not answer; instances keep running", "cluster", a.joined.Cluster, "error", err)
			}
		},
	}
}

// status is what this worker is, where the cluster has not heard it yet.
func (a *Agent) status(full bool) (json.RawMessage, error) {
	a.feel()
	a.mu.Lock()
	defer a.mu.Unlock()
	devices, capacity := a.offered()
	info := wire.WorkerInfo{
		V: wire.Version, Name: a.opts.Name, Version: obs.Version(), Capacity: capacity,
		Arch: runtime.GOARCH, OS: runtime.GOOS, Runtimes: slices.Clone(a.info.Runtimes), Labels: a.labels,
		Location: a.opts.Location, Features: a.features, HostPaths: a.opts.HostPaths, Isolation: a.info.Isolation, Devices: devices, SealKey: a.sealKey,
		Address: advertised(a.opts.Advertise, a.info.DataAddr,
			a.joined.Link), Gateway: a.info.GatewayAddr, Published: a.info.Published,
		Cgroup: strings.Join(limits(a.info.Missing), "; "), Engine: a.engine,
		Impaired: a.impaired, Problems: brief(a.problems()), Network: reachedRelay(a.info.Network, a.opts.Advertise,
			a.joined.Link), Lease: leaseIn(a.network),
		Uses: a.info.Uses != nil,
	}
	if a.id != nil {
		info.Trust, info.Expires, info.Issuer = a.id.TrustID(), a.id.Leaf().NotAfter, a.id.IssuerID()
	}
	if !full && records.Same(info, a.said) {
		return nil, nil
	}
	a.said = info
	return json.Marshal(info)
}

// uses are the services that the engine uses, where the cluster has not heard it yet;
// nil where an older engine does not say.
func (a *Agent) uses(full bool) *wire.Uses {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.info.Uses
	if u == nil || !full && a.saidUses != nil && records.Same(u, a.saidUses) {
		return nil
	}
	a.saidUses = u
	return u
}

// routesFiltered is called with whether the cluster sends endpoints of used services only.
// One of an older version sends all. Then everything is fetched from it, since a newer one
// before it had left out the endpoints of unused services.
func (a *Agent) routesFiltered(filters bool) {
	if filters {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.routes {
		if r.Unasked {
			a.have = wire.Rev{}
			loop.Poke(a.changed)
			return
		}
	}
}

// leaseIn is what a worker was given of the service network, nil for nothing.
func leaseIn(n *wire.Network) *wire.Lease {
	var l wire.Lease
	if n == nil || json.Unmarshal(n.Lease.Body, &l) != nil {
		return nil
	}
	return &l
}

// Bounds of the problems that are reported: a cluster reads 64 KiB of what a
// worker says about itself.
const (
	maxProblems     = 20
	maxProblemBytes = 500
)

// brief is the part of problems that fits a report; the engine's log has all.
func brief(problems []string) (out []string) {
	for i, p := range problems {
		if i == maxProblems {
			return append(out, fmt.Sprintf("… and %d more; the worker's log has them", len(problems)-i))
		}
		if len(p) > maxProblemBytes {
			p = strings.ToValidUTF8(p[:maxProblemBytes], "") + " …"
		}
		out = append(out, p)
	}
	return out
}

// limits lists what the runtimes cannot do here.
func limits(missing map[string]string) (out []string) {
	for _, name := range records.SortedKeys(missing) {
		if missing[name] != "" {
			out = append(out, name+": "+missing[name])
		}
	}
	return out
}
