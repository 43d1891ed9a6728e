package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/probe"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/engine"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// devReserve is the part of the machine that dev leaves to everything else.
	devReserve = 0.05
	devReady   = 30 * time.Second
	devStop    = 20 * time.Second
	loopback   = "127.0.0.1:0"
)

// dev is three tiers. Workers are in this process, or with the service network each in a
// process and a network namespace of its own.
type dev struct {
	flags daemonflags.DevFlags
	log   *slog.Logger
	dir   string

	root     *root.Root
	clusters []*cluster.Cluster
	workers  *devWorkers    // of this process
	ports    fleet.PortBook // all workers share those of the machine
	network  *devNetwork    // nil: there is no service network
	why      error          // there is none; nil: it was not asked for
}

// devWorkers are the workers of one process, each an agent and an engine.
type devWorkers struct {
	log  *slog.Logger
	hide []string // from instances
	// public and apart are those of engine.Options.
	public func(open func() error) error
	apart  bool
	ended  func() // is called when a part ends by itself; may be nil

	all     sync.WaitGroup
	mu      sync.Mutex
	engines []*engine.Engine
	gateway *engine.Engine // of the worker that is the gateway
	failed  error          // of the first part that ended by itself
}

// runDev starts everything, says so, and stops everything when ctx ends.
func runDev(ctx context.Context, f daemonflags.DevFlags) (err error) {
	begin := time.Now()
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	log := s.log
	d := &dev{flags: f, log: log, dir: f.DataDir}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "verge-dev-"); err != nil {
			return fmt.Errorf("making a temporary data directory: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("preparing the data directory: %w", err)
	}
	if d.dir, err = filepath.Abs(d.dir); err == nil {
		d.dir, err = filepath.EvalSymlinks(d.dir)
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	unlock, err := lock(d.dir)
	if err != nil {
		return err
	}
	defer unlock()
	d.workers = &devWorkers{log: log, hide: []string{d.dir}}
	if err := d.openNetwork(ctx); err != nil {
		return err
	}

	// Agents and engines outlive ctx a little: they are stopped in order.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { err = errors.Join(err, d.stop(cancel)) }()
	if err := d.start(ctx, run); err != nil {
		return err
	}
	if err := d.wait(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		files, order := map[string]string{devContext: d.root.ContextFile()}, []string{devContext}
		for i, c := range d.clusters {
			name := devContext + "-" + d.flags.Clusters[i]
			files[name], order = c.ContextFile(), append(order, name)
		}
		names, forget, err := register(d.flags.Process, order, files)
		defer forget()
		if err != nil {
			log.Warn("the contexts are not among the user's", "error", err)
		}
		d.greet(ctx, time.Since(begin), names)
	}
	<-ctx.Done()
	return nil
}

// openNetwork removes what a dev left that was killed, and makes the network of the workers
// where they are to have the service network.
func (d *dev) openNetwork(ctx context.Context) error {
	if err := cleanDev(ctx, d.dir, d.log); err != nil {
		return fmt.Errorf("removing what an earlier verge dev left: %w", err)
	}
	if d.flags.Network == wire.NetworkLoopback {
		return nil
	}
	if d.network, d.why = openDevNetwork(d.dir, d.flags.Network == wire.NetworkAuto); d.why == nil {
		return nil
	}
	if d.flags.Network == wire.NetworkOverlay {
		return wire.Problemf(0, "no-network", "see to it, or start it with --network auto or loopback",
			"there can be no service network", "%v", d.why)
	}
	return nil
}

// lock makes sure that this is the only process in dir.
func lock(dir string) (unlock func(), err error) {
	unlock, err = atomicfile.Lock(filepath.Join(dir, "dev.lock"))
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, wire.Problemf(0, "in-use", "stop the other one, or choose another --data-dir",
			"the data directory is in use", "another verge dev works in %s", dir)
	}
	return unlock, err
}

// devHooks are where hooks may go: what is tried out on a laptop is on it.
var devHooks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func (d *dev) start(ctx, run context.Context) (err error) {
	d.root, err = root.Start(ctx, root.Options{
		Dir: filepath.Join(d.dir, "root"), APIAddr: d.flags.API, LinkAddr: loopback,
		HooksAllow: devHooks,
		Log:        d.log.With("role", "root"),
	})
	if err != nil {
		return err
	}
	// One context file at the top, where the message points the user to.
	data, err := os.ReadFile(d.root.ContextFile())
	if err != nil {
		return fmt.Errorf("reading the administrator's context: %w", err)
	}
	if err := os.WriteFile(d.contextFile(), data, 0o600); err != nil {
		return fmt.Errorf("writing the context: %w", err)
	}
	d.clusters = make([]*cluster.Cluster, len(d.flags.Clusters))
	errs := make([]error, len(d.flags.Clusters))
	var all sync.WaitGroup
	for i, name := range d.flags.Clusters {
		all.Go(func() { errs[i] = d.startCluster(ctx, run, i, name) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (d *dev) contextFile() string { return filepath.Join(d.dir, "context.yaml") }

func (d *dev) startCluster(ctx, run context.Context, n int, name string) (err error) {
	dir := filepath.Join(d.dir, "clusters", name)
	token, err := d.token(dir, func() (string, error) { return d.root.NewClusterToken(ctx, name) })
	if err != nil {
		return err
	}
	d.clusters[n], err = cluster.Start(ctx, cluster.Options{
		Dir: dir, Name: name, TokenFile: "-", Stdin: strings.NewReader(token), Root: d.root.Link(),
		LinkAddr: d.reached(), APIAddr: d.reached(), Areas: []string{name}, Details: true,
		Scheduler: d.flags.Scheduler, Plugins: d.flags.Plugins, HooksAllow: devHooks, Ports: &d.ports,
		Log: d.log.With("role", "cluster", "cluster", name),
	})
	if err != nil {
		return fmt.Errorf("starting cluster %s: %w", name, err)
	}
	for w := range d.flags.Workers {
		if err := d.startWorker(ctx, run, n, w); err != nil {
			return fmt.Errorf("starting worker %d of cluster %s: %w", w+1, name, err)
		}
	}
	return nil
}

// token makes a join token for a node that has not joined yet.
func (d *dev) token(dir string, create func() (string, error)) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "joined.json")); err == nil {
		return "", nil
	}
	return create()
}

func (d *dev) startWorker(ctx, run context.Context, n, w int) error {
	c := d.clusters[n]
	name := fmt.Sprintf("%s-%d", c.Name(), w+1)
	dir := filepath.Join(d.dir, "workers", name)
	token, err := d.token(filepath.Join(dir, engineapi.IdentityDir), func() (string, error) {
		if n == 0 && w == 0 {
			return c.NewGatewayToken(ctx)
		}
		return c.NewWorkerToken(ctx)
	})
	if err != nil {
		return err
	}
	// All of the machine for each: a part of a small one has no room for anything, and what
	// is tried out seldom uses what it reserves.
	capacity, err := probe.Capacity(d.dir, api.Resources{}, devReserve)
	if err != nil {
		return err
	}
	spec := devWorker{
		Dir: dir, Name: name, Token: token, Cluster: c.Link(), Capacity: capacity, Data: loopback,
		Network:   wire.NetworkLoopback,
		LogFormat: d.flags.LogFormat, LogLevel: d.flags.LogLevel,
	}
	if n == 0 && w == 0 {
		spec.GatewayAddr = d.flags.Gateway
		spec.Gateway = engineapi.GatewayConfig{TLSAddr: d.flags.GatewayTLS, SelfSigned: true}
	}
	if d.network == nil {
		d.workers.start(run, &spec, nil)
		return nil
	}
	spec.Network, spec.Hide = d.flags.Network, d.workers.hide
	return d.network.start(n*d.flags.Workers+w, spec, d.flags.Process, d.workers.fail)
}

// reached is where clusters listen: workers join and connect there.
func (d *dev) reached() string {
	if d.network == nil {
		return loopback
	}
	return netip.AddrPortFrom(d.network.addr(), 0).String()
}

// devRange has the networks of workers, one for each verge dev: addresses that nothing else
// uses (RFC 2544).
var devRange = netip.MustParsePrefix("198.18.0.0/15")

// devWorker is what a worker of verge dev is started with.
type devWorker struct {
	Dir, Name, Token string
	Cluster          []string
	Capacity         api.Resources
	// Data is the address of its data port, and Network how instances are connected.
	Data, Network       string
	GatewayAddr         string
	Gateway             engineapi.GatewayConfig
	LogFormat, LogLevel string
	// Hide are directories that instances do not see.
	Hide []string
	// Addr of the worker in its network namespace, and Via, the machine's; zero where it is
	// in that of verge dev.
	Addr netip.Prefix
	Via  netip.Addr
}

// start starts a worker. Its agent and engine run until run ends; ready may be nil.
func (d *devWorkers) start(run context.Context, w *devWorker, ready func()) {
	log := d.log.With("role", "worker", "worker", w.Name)
	o := agent.Options{
		Dir: w.Dir, Name: w.Name, TokenFile: "-", Stdin: strings.NewReader(w.Token), Cluster: w.Cluster,
		DataAddr: w.Data, GatewayAddr: w.GatewayAddr, Gateway: w.Gateway,
		Capacity: w.Capacity, Network: w.Network, HostUsers: []string{"root"}, LogFormat: w.LogFormat,
		LogLevel: w.LogLevel, Log: log,
		Engine: func(cfg engineapi.EngineConfig) (engineclient.Client, error) {
			return d.startEngine(run, w.Dir, cfg, log)
		},
		Ready: ready,
	}
	d.all.Go(func() {
		if err := agent.Run(run, o); err != nil && run.Err() == nil {
			d.fail(fmt.Errorf("worker %s: %w", w.Name, err))
		}
	})
}

func (d *devWorkers) startEngine(
	run context.Context, dir string, cfg engineapi.EngineConfig, log *slog.Logger,
) (engineclient.Client, error) {
	drivers, closeDrivers := engine.Drivers(dir, cfg, log)
	e, err := engine.New(engine.Options{
		Dir: dir, Hide: d.hide, Config: cfg, Drivers: drivers, Log: log, Version: obs.Version(),
		Public: d.public, Apart: d.apart,
	})
	if err != nil {
		closeDrivers()
		return nil, err
	}
	d.mu.Lock()
	d.engines = append(d.engines, e)
	if cfg.GatewayAddr != "" {
		d.gateway = e
	}
	d.mu.Unlock()
	d.all.Go(func() {
		defer closeDrivers()
		if err := e.Run(run); err != nil && run.Err() == nil {
			d.fail(fmt.Errorf("engine of worker %s: %w", cfg.Worker, err))
		}
	})
	return e, nil
}

func (d *devWorkers) fail(err error) {
	d.log.Error("a part of dev ended", "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
	if d.ended != nil {
		d.ended()
	}
}

func (d *devWorkers) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// shutdown stops all instances, within ctx.
func (d *devWorkers) shutdown(ctx context.Context) {
	d.mu.Lock()
	engines := d.engines
	d.mu.Unlock()
	var all sync.WaitGroup
	for _, e := range engines {
		all.Go(func() {
			if err := e.Shutdown(ctx); err != nil {
				d.log.Warn("stopping the instances of a worker", "error", err)
			}
		})
	}
	all.Wait()
}

// wait returns when the root knows of every worker.
func (d *dev) wait(ctx context.Context) error {
	deadline := time.Now().Add(devReady)
	for {
		n := 0
		for _, w := range d.root.Ready() {
			n += w
		}
		failed := d.workers.failure()
		switch {
		case failed != nil:
			return failed
		case n == len(d.flags.Clusters)*d.flags.Workers:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("only %d workers reported within %s; the log above says why", n, devReady)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// gatewayAddr is where the gateway listens, "" if it does not.
func (d *devWorkers) gatewayAddr(ctx context.Context) string {
	d.mu.Lock()
	e := d.gateway
	d.mu.Unlock()
	if e != nil {
		if s, err := e.State(ctx, 0, 0); err == nil {
			return s.Info.GatewayAddr
		}
	}
	return ""
}

// gatewayURL is where the gateway listens, or that it does not.
func (d *dev) gatewayURL(ctx context.Context, states []devState) string {
	addr := d.workers.gatewayAddr(ctx)
	for _, s := range states {
		addr = cmp.Or(addr, s.Gateway)
	}
	if addr != "" {
		return "http://" + reachable(addr)
	}
	return "none yet on " + d.flags.Gateway + "; verge status says why"
}

// devState is what a worker in a process of its own says of itself.
type devState struct {
	Worker, Network, Why string
	Gateway              string `json:",omitempty"` // where it listens
}

// networkLine says how instances are connected.
func (d *dev) networkLine(states []devState) string {
	const none = "there is no service network"
	const means = ": instances share the ports of this machine, and services have no names"
	if d.network == nil {
		if d.why != nil {
			return none + " (" + d.why.Error() + ")" + means
		}
		return none + " (--network loopback)" + means
	}
	var without []string
	for _, s := range states {
		if s.Network != wire.NetworkOverlay {
			without = append(without, s.Worker+" ("+s.Why+")")
		}
	}
	if len(without) > 0 {
		return none + " on " + strings.Join(without, ", ")
	}
	return "each worker is in the service network: instances have addresses of their own, and services have names"
}

// reachable is a listening address as a program of this machine can connect to it.
func reachable(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsUnspecified() {
		return addr
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
}

func (d *dev) greet(ctx context.Context, took time.Duration, contexts []string) {
	p := d.flags.Process
	states := d.network.ask(ctx)
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(p.Stdout, format+"\n", args...) }
	out("ready in %s: clusters %s with %s each (%s/%s)", took.Round(time.Millisecond),
		strings.Join(d.flags.Clusters, ", "), wire.Count(d.flags.Workers, "worker"), runtime.GOOS, runtime.GOARCH)
	if d.flags.Workers*len(d.flags.Clusters) > 1 {
		out("  each worker offers all of this machine: its resources are overcommitted, so reservations bound " +
			"nothing in total")
	}
	out("  %s", d.networkLine(states))
	out("  API      https://%s", d.root.Addr())
	if d.flags.Gateway != "" {
		out("  gateway  %s", d.gatewayURL(ctx, states))
		if d.flags.GatewayTLS != "" {
			out("           https://%s, with certificates of its own (curl -k)", d.flags.GatewayTLS)
		}
	}
	if len(contexts) > 0 {
		out("  contexts %s, while it runs (verge --context NAME)", strings.Join(contexts, ", "))
	}
	out("next, in another terminal:")
	out("  export VERGE_CONTEXT=%s", d.contextFile())
	out("  verge apply FILE")
}

// stop ends the instances first, while everything that could explain it is
// still there, and then the tiers from the bottom up.
func (d *dev) stop(cancel context.CancelFunc) error {
	ctx, done := context.WithTimeout(context.Background(), devStop)
	defer done()
	d.workers.shutdown(ctx)
	cancel()
	d.workers.all.Wait()
	d.network.stop()
	for _, c := range d.clusters {
		if c != nil {
			c.Close()
		}
	}
	if d.root != nil {
		d.root.Close()
	}
	if err := d.network.remove(); err != nil {
		return fmt.Errorf("removing the network of the workers: %w", err)
	}
	return nil
}
