package daemon

import (
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
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/engine"
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

// dev is three tiers in one process.
type dev struct {
	flags cli.DevFlags
	log   *slog.Logger
	dir   string

	root     *root.Root
	clusters []*cluster.Cluster
	agents   sync.WaitGroup
	ports    cluster.PortBook // all workers share those of the machine

	mu      sync.Mutex
	engines []*engine.Engine
	gateway *engine.Engine // of the worker that is the gateway
	failed  error          // of the first agent or engine that ended by itself
}

// runDev starts everything, says so, and stops everything when ctx ends.
func runDev(ctx context.Context, f cli.DevFlags) (err error) {
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
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	unlock, err := lock(d.dir)
	if err != nil {
		return err
	}
	defer unlock()

	// Agents and engines outlive ctx a little: they are stopped in order.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer d.stop(cancel)
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

// lock makes sure that this is the only process in dir.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("preparing the data directory: %w", err)
	}
	unlock, err = atomicfile.Lock(filepath.Join(dir, "dev.lock"))
	if errors.Is(err, atomicfile.ErrLocked) {
		return nil, wire.Problemf(0, "in-use", "stop the other one, or choose another --data-dir", "the data directory is in use", "another verge dev works in %s", dir)
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
	// One context file at the top, where the user is told to look.
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
		LinkAddr: loopback, APIAddr: loopback, Areas: []string{name}, Details: true,
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
	token, err := d.token(filepath.Join(dir, wire.IdentityDir), func() (string, error) {
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
	capacity, err := agent.Capacity(d.dir, api.Resources{}, devReserve)
	if err != nil {
		return err
	}
	log := d.log.With("role", "worker", "worker", name)
	o := agent.Options{
		Dir: dir, Name: name, TokenFile: "-", Stdin: strings.NewReader(token), Cluster: c.Link(),
		DataAddr: loopback, Capacity: capacity, Network: wire.NetworkLoopback, HostUsers: []string{"root"}, LogFormat: d.flags.LogFormat, LogLevel: d.flags.LogLevel, Log: log,
		Engine: func(cfg wire.EngineConfig) (agent.Hands, error) { return d.startEngine(run, dir, cfg, log) },
	}
	if n == 0 && w == 0 {
		o.GatewayAddr = d.flags.Gateway
		o.Gateway = wire.GatewayConfig{TLSAddr: d.flags.GatewayTLS, SelfSigned: true}
	}
	d.agents.Go(func() {
		if err := agent.Run(run, o); err != nil && run.Err() == nil {
			d.fail(fmt.Errorf("worker %s: %w", name, err))
		}
	})
	return nil
}

func (d *dev) startEngine(run context.Context, dir string, cfg wire.EngineConfig, log *slog.Logger) (agent.Hands, error) {
	drivers, closeDrivers := engine.Drivers(dir, cfg, log)
	e, err := engine.New(engine.Options{Dir: dir, Hide: []string{d.dir}, Config: cfg, Drivers: drivers, Log: log, Version: obs.Version()})
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
	d.agents.Go(func() {
		defer closeDrivers()
		if err := e.Run(run); err != nil && run.Err() == nil {
			d.fail(fmt.Errorf("engine of worker %s: %w", cfg.Worker, err))
		}
	})
	return e, nil
}

func (d *dev) fail(err error) {
	d.log.Error("a part of dev ended", "error", err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
}

// wait returns when the root knows of every worker.
func (d *dev) wait(ctx context.Context) error {
	deadline := time.Now().Add(devReady)
	for {
		n := 0
		for _, w := range d.root.Ready() {
			n += w
		}
		d.mu.Lock()
		failed := d.failed
		d.mu.Unlock()
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

// gatewayURL is where the gateway listens, or that it does not.
func (d *dev) gatewayURL(ctx context.Context) string {
	d.mu.Lock()
	e := d.gateway
	d.mu.Unlock()
	if e != nil {
		if s, err := e.State(ctx, 0, 0); err == nil && s.Info.GatewayAddr != "" {
			return "http://" + reachable(s.Info.GatewayAddr)
		}
	}
	return "none yet on " + d.flags.Gateway + "; verge status says why"
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
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(p.Stdout, format+"\n", args...) }
	out("ready in %s: clusters %s with %s each (%s/%s)", took.Round(time.Millisecond),
		strings.Join(d.flags.Clusters, ", "), wire.Count(d.flags.Workers, "worker"), runtime.GOOS, runtime.GOARCH)
	if d.flags.Workers*len(d.flags.Clusters) > 1 {
		out("  each worker offers all of this machine: its resources are overcommitted, so reservations bound nothing in total")
	}
	out("  there is no service network: instances share the ports of this machine, and services have no names")
	out("  API      https://%s", d.root.Addr())
	if d.flags.Gateway != "" {
		out("  gateway  %s", d.gatewayURL(ctx))
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
func (d *dev) stop(cancel context.CancelFunc) {
	ctx, done := context.WithTimeout(context.Background(), devStop)
	defer done()
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
	cancel()
	d.agents.Wait()
	for _, c := range d.clusters {
		if c != nil {
			c.Close()
		}
	}
	if d.root != nil {
		d.root.Close()
	}
}
