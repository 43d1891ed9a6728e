package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/gateway"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/engine/images"
	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/objects"
	"github.com/verge-edge/verge/internal/engine/orphans"
	"github.com/verge-edge/verge/internal/engine/portpool"
	"github.com/verge-edge/verge/internal/engine/profiles"
	"github.com/verge-edge/verge/internal/engine/proximity"
	"github.com/verge-edge/verge/internal/engine/routes"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/sessions"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/stats"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// replacements of an engine that tests replace; nil is the real one.
type replacements struct {
	router  router
	network network.Overlay
	orphans orphanProcesses
	prober  health.Prober
	restart supervise.RestartRule
	boot    string
	uptime  func() time.Duration
	free    func(port int) bool
	// noObjects: instances get no access to objects.
	noObjects bool
	// volumes is where volumes are put that are moved; nil is the cluster's object store.
	volumes volumes.ObjectStore
	// placeWithin replaces the constant.
	placeWithin time.Duration
}

// probeDrivers finds out what the drivers can do here.
func probeDrivers(drivers map[string]runtime.Driver) (engineapi.EngineInfo, error) {
	info := engineapi.EngineInfo{PID: os.Getpid(), Missing: make(map[string]string)}
	for name, d := range drivers {
		missing, err := d.Probe()
		if _, may := d.(runtime.Imager); may && err != nil {
			continue // most machines have none, which is nothing to be told about each
		}
		if err != nil {
			info.Missing[name] = "not usable: " + err.Error()
			continue
		}
		info.Runtimes = append(info.Runtimes, name)
		if missing != "" {
			info.Missing[name] = missing
		}
	}
	slices.Sort(info.Runtimes)
	if len(info.Runtimes) == 0 {
		return engineapi.EngineInfo{}, fmt.Errorf("no runtime works on this machine: %v", info.Missing)
	}
	return info, nil
}

// assemble makes what the supervisors work with.
func (e *Engine) assemble() error {
	p := e.opts.replaced
	k := &deps{
		config: e.opts.Config, router: p.router, problems: status.NewProblems(e.log, e.board), orphans: p.orphans,
		vault: secrets.New(filepath.Join(e.opts.Dir, engineapi.IdentityDir)), readiness: make(chan struct{}, 1),
	}
	d := &supervise.Deps{
		Dir: e.opts.Dir, Mark: wire.Mark(e.opts.Dir)[:16], Config: e.opts.Config, Boot: p.boot, Uptime: p.uptime,
		CannotMount: workdir.CannotMount(), Hide: e.opts.Hide, Drivers: e.opts.Drivers, Devices: k.devices, Log: e.log,
		Board: e.board, Problems: k.problems, Addrs: k.addrsOf, Secrets: k.vault, Restart: p.restart,
		Checks:  supervise.Checks{Prober: p.prober, Commands: make(chan struct{}, health.MaxCommands)},
		Changed: k.changed, Released: e.replan, Forgotten: e.forgotten, Force: e.force,
	}
	k.logs = logs.New(logs.Options{Dir: d.Dir, Drivers: d.Drivers, Problems: k.problems.Set, Status: e.board.Get,
		Ended: e.ended, Log: e.log})
	if d.Uptime == nil {
		d.Uptime = uptime
	}
	if d.Boot == "" {
		b, err := atomicfile.ReadBounded("/proc/sys/kernel/random/boot_id", 128)
		if err != nil {
			return fmt.Errorf("id of this boot: %w", err)
		}
		d.Boot = strings.TrimSpace(string(b))
	}
	if k.orphans == nil {
		k.orphans = orphans.Processes{Engine: d.Mark}
	}
	if d.Checks.Prober == nil {
		d.Checks.Prober = health.NewNetProber()
	}
	if d.Restart == nil {
		d.Restart = life.Restart
	}
	if p.free == nil {
		p.free = portpool.Bindable
	}
	d.Ports, d.Logs, d.Orphans = portpool.New(d.Mark, p.free), k.logs, k.orphans
	id := identity.New(filepath.Join(e.opts.Dir, engineapi.IdentityDir), &e.revoked, e.log)
	k.objects = objects.New(objects.Options{Dir: e.opts.Dir, Identity: id, Problem: k.problems.Tell,
		Sockets: e.opts.Sockets, Off: p.noObjects, Log: e.log})
	k.images = images.New(images.Options{
		Cluster: k.config.Cluster, Shares: k.config.DataAddr != "", Pull: k.config.Pull, Drivers: e.opts.Drivers,
		Above: k.objects.Cluster(), TLS: id.ClientTLS, Ordered: e.orderedImages, Log: e.log,
	})
	d.MakeRoom = k.images.MakeRoom
	if p.volumes == nil {
		p.volumes = k.objects.Cluster()
	}
	k.volumes = volumes.New(volumes.Options{Dir: e.opts.Dir, Worker: k.config.Worker, HostPaths: k.config.HostPaths,
		Objects: p.volumes, Log: e.log})
	pool, isolation := users.Open(d.Drivers[process.Name], filepath.Join(d.Dir, state.InstancesDir), k.config.HostUsers)
	e.board.SetInfo(func(i *engineapi.EngineInfo) { i.Isolation = isolation })
	if pool != nil {
		d.Users = pool
	}
	k.problems.Set("volumes that were not received", k.volumes.ClearArriving())
	k.gateway = gateway.NewWatcher(e.board, k.problems)
	if k.router == nil {
		far, err := newRouter(e, k)
		if err != nil {
			return err
		}
		k.router, k.distances = far.Router(), far
	}
	k.gateway.Watch(k.router)
	n := network.Options{
		Dir: e.opts.Dir, Boot: d.Boot, Config: k.config, Board: e.board, Problems: k.problems, Log: e.log,
		Revoked: &e.revoked,
		Sockets: e.opts.Sockets, Apart: e.opts.Apart, Through: k.router.Serve, Objects: k.objects.Serve,
		Use: e.uses.Use, Await: e.uses.Await, Overlay: p.network, PlaceWithin: p.placeWithin,
	}
	var routed routes.Router = k.router
	if k.distances != nil {
		n.Distances, routed = k.distances.ForOverlay(), k.distances
	}
	k.network, k.relay = network.New(n), network.NewRelay(n)
	if v := k.network.Overlay(); v != nil && k.distances != nil {
		k.distances.SetTunnel(v.Measure)
	}
	d.Router, d.Network, d.Objects, d.Volumes = k.router, k.network, k.objects, k.volumes
	k.supervise = d
	k.local = routes.NewLocal(routed, k.config.Cluster, k.config.Worker, e.board.Get)
	k.reporter = proximity.NewReporter(proximity.ReportOptions{
		Cluster: k.config.Cluster, Worker: k.config.Worker, Distances: k.distances, Router: k.router,
		Network: e.networkPaths,
		Await:   e.uses.Await, AwaitAll: e.uses.AwaitAll, Log: e.log,
	})
	if err := atomicfile.MkdirAll(filepath.Join(e.opts.Dir, state.InstancesDir), 0o700); err != nil {
		return fmt.Errorf("directory of the instances: %w", err)
	}
	k.sessions = sessions.New(sessions.Options{
		Worker: k.config.Worker, Find: func(id wire.InstanceID) (sessions.Instance, error) { return e.instance(id) },
		Start: e.beside, EndExec: k.orphans.EndExec, Log: e.log,
	})
	k.profiles = profiles.New(profiles.Options{
		Worker: k.config.Worker, Router: k.router, Order: e.orderOf,
		Start: func(run func(context.Context)) error { return e.beside(nil, run) }, Log: e.log,
	})
	e.deps, k.demand = k, stats.NewDemand(k.router, e.ended)
	e.uses.SetUsed(e.usedLately)
	for name, d := range e.opts.Drivers {
		if r, ok := d.(runtime.Reporter); ok {
			r.Report(func(err error) { k.problems.Set("runtime "+name, err) }, func() { e.probeAgain(name, d) })
		}
	}
	return nil
}

// probeAgain looks at a driver that says that it can do more than before. What it
// could once do stays: what runs by it must not be refused while it is away.
func (e *Engine) probeAgain(name string, d runtime.Driver) {
	missing, err := d.Probe()
	if err != nil || slices.Contains(e.board.Runtimes(), name) {
		return
	}
	e.log.Info("a runtime is there now", "runtime", name)
	e.board.SetInfo(func(i *engineapi.EngineInfo) {
		i.Runtimes = slices.Sorted(slices.Values(append(slices.Clone(i.Runtimes), name)))
		if missing != "" {
			i.Missing = maps.Clone(i.Missing)
			i.Missing[name] = missing
		}
	})
	e.replan()
}

func newRouter(e *Engine, k *deps) (*proximity.Distances, error) {
	// A board without a battery starts in 1970, where no peer's certificate is
	// valid; the agent keeps the last known time beside the identity.
	c, idDir := k.config, filepath.Join(e.opts.Dir, engineapi.IdentityDir)
	id := identity.New(idDir, nil, e.log)
	acme, err := gateway.ACMEServer(c.Gateway.ACME)
	k.problems.Set("ACME", err)
	return proximity.New(e.opts.Dir, proxy.Options{
		Worker: c.Worker, Cluster: c.Cluster, Local: e, Log: e.log,
		StateFile: filepath.Join(e.opts.Dir, routerFile),
		DataAddr:  c.DataAddr, GatewayAddr: c.GatewayAddr, GatewayTLSAddr: c.Gateway.TLSAddr,
		GatewayPorts: [2]int{int(c.Gateway.Ports[0]), int(c.Gateway.Ports[1])}, GatewayChanged: k.gateway.Changed,
		GatewayProxyFrom: c.Gateway.ProxyFrom,
		CertDir:          filepath.Join(e.opts.Dir, gateway.Dir), Secrets: k.vault, ACME: acme,
		CertsAbove: k.objects.Cluster(), SelfSigned: c.Gateway.SelfSigned,
		Ask: e.uses.Await, Listeners: e.opts.Sockets, Public: e.opts.Public,
		TLS: id.ServerTLS, Away: id.AwayTLS, PeerName: pki.WorkerName, PeerAllowed: identity.PeerAllowed(&e.revoked),
		Protocols: map[string]func(context.Context,
			*tls.Conn){peer.Protocol: func(ctx context.Context, conn *tls.Conn) { k.network.ServeOffer(ctx, conn) },
			rpc.ImageProtocol: k.images.Serve},
	})
}

// load reads what the last engine left and starts a supervisor for each of its
// instances; spawn must be set. Damaged files are moved aside and reported.
func (e *Engine) load(ctx context.Context) error {
	var restored *engineapi.EngineOrders
	path := e.stored.Path()
	orders, err := state.ReadOrders(e.stored)
	switch {
	case err == nil:
		e.told = orders
		orders.Orders = slices.Clone(orders.Orders) // their peers are filled in
		state.FillPeers(&orders)
		e.orders, e.known = orders.Orders, true
		e.board.SetHave(orders.Have)
		e.revoke(orders.Revoked)
		e.deps.vault.Set(orders.Secrets)
		e.deps.router.SetRoutes(orders.Routes)
		e.uses.Load(orders.Routes, time.Now())
		restored = &orders
	case errors.Is(err, os.ErrNotExist):
	case errors.Is(err, state.ErrDamaged):
		e.damaged(path, err, "instances keep running until the agent sends orders")
	default:
		// A disk that does not answer now may do so for a successor.
		return fmt.Errorf("read orders: %w", err)
	}

	found, err := e.deps.orphans.Find(true)
	if err != nil {
		return err
	}
	e.marked = make(map[wire.InstanceID]bool, len(found))
	for id := range found {
		if state.ValidID(id) {
			e.marked[id] = true
		}
	}
	dirs, err := os.ReadDir(filepath.Join(e.opts.Dir, state.InstancesDir))
	if err != nil {
		return fmt.Errorf("read instances: %w", err)
	}
	e.orphans = []wire.InstanceID{} // not nil: they are yet to be looked at
	records := make(map[wire.InstanceID]state.Record, len(dirs))
	for _, d := range dirs {
		id := d.Name()
		if !d.IsDir() || !state.ValidID(id) {
			continue
		}
		dir := filepath.Join(e.opts.Dir, state.InstancesDir, id)
		rec, err := state.ReadRecord(dir, id)
		switch {
		case err == nil:
			records[id] = rec
			continue
		case errors.Is(err, os.ErrNotExist):
		case errors.Is(err, state.ErrEmpty):
			e.marked[id] = true // look for what it may have left
		case errors.Is(err, state.ErrDamaged):
			e.damaged(filepath.Join(dir, state.RecordName), err, "it is started anew if it is still ordered")
			e.marked[id] = true // look for what it may have left
		default:
			return fmt.Errorf("read state of %s: %w", id, err)
		}
		e.orphans = append(e.orphans, id)
	}
	for id := range e.marked {
		if _, ok := records[id]; !ok && !slices.Contains(e.orphans, id) {
			e.orphans = append(e.orphans, id)
		}
	}
	if len(e.orphans) == 0 {
		e.sweepGroups(ctx, records)
	}
	if restored != nil {
		e.deps.network.Restore(restored)
	}
	e.deps.network.KeepPlaces(records)
	for id, rec := range records {
		e.addLocked(id, rec, e.marked[id])
	}
	return nil
}

// sweepGroups lets drivers remove what a dead engine had made for tasks that it
// did not come to note, before anything new is made. It is left to the later
// search for processes where a record is missing that could name them.
func (e *Engine) sweepGroups(ctx context.Context, records map[wire.InstanceID]state.Record) {
	kept := make(map[string]bool)
	for _, rec := range records {
		if rec.Handle != nil && rec.Handle.Cgroup != "" {
			kept[rec.Handle.Cgroup] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, supervise.KillWithin)
	defer cancel()
	for name, d := range e.opts.Drivers {
		s, ok := d.(interface {
			Sweep(ctx context.Context, keep func(path string) bool) error
		})
		if !ok {
			continue
		}
		e.deps.problems.Set("runtime "+name, s.Sweep(ctx, func(path string) bool { return kept[path] }))
	}
}

// damaged moves a file aside that can't be used and reports it.
func (e *Engine) damaged(path string, err error, then string) {
	to, merr := state.MoveAside(path)
	if merr != nil {
		err = errors.Join(err, merr)
	} else {
		err = fmt.Errorf("%w; kept as %s; %s", err, filepath.Base(to), then)
	}
	e.deps.problems.Set(state.FileSubject(path), err)
}

const (
	routerFile = "router.json"
)
