package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/engine/server"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// Pace of what an engine does by the clock.
const (
	firstReopen   = time.Second
	slowestReopen = 30 * time.Second
	// introduceWithin bounds the wait for instances to be checked, and for the first probes of
	// recovered ones. On a busy machine a probe takes seconds, and an agent that hears too early
	// takes the instance out of its routes.
	introduceWithin = 5 * time.Second
)

// Run works until ctx is done or Shutdown has stopped everything, and returns nil then; an error
// means that it could not begin. When ctx is done, instances keep running for the next engine in
// the same directory. Run is called once.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := sync.OnceFunc(func() { close(e.ended) })
	defer end()

	lock, err := lockOrInherit(e.opts.Dir, e.opts.Inherited)
	if err != nil {
		return err
	}
	defer func() { lock.release() }()
	if err := e.assemble(); err != nil {
		return err
	}
	// The router outlives the rest where a successor takes that over.
	work, stopWork := context.WithCancelCause(ctx)
	defer stopWork(nil)
	var wg, working sync.WaitGroup
	defer e.deps.router.Close()
	defer wg.Wait()
	defer cancel()
	defer working.Wait()
	defer stopWork(nil)
	defer e.deps.objects.Close()
	e.deps.objects.Start(func(f func(context.Context)) { wg.Go(func() { f(ctx) }) })
	// The router first: what starts may use it at once.
	if err := e.deps.router.Start(ctx); err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	if e.deps.distances != nil {
		working.Go(func() { e.deps.distances.Run(work) })
	}
	if n := e.deps.network.Overlay(); n != nil {
		defer n.Close()
		n.Start(work)
	}
	if e.deps.config.Relay.Listen != "" {
		working.Go(func() { e.deps.relay.Run(work) })
	}
	if !e.openPorts(work) {
		working.Go(func() { e.reopenPorts(work) })
	}
	e.mu.Lock()
	e.spawn = func(f func(context.Context)) { working.Go(func() { f(work) }) }
	err = e.load(work)
	e.mu.Unlock()
	idle := func() {
		e.mu.Lock()
		e.spawn = nil
		e.mu.Unlock()
	}
	defer idle()
	if err != nil {
		return err
	}
	if c := &e.opts.Config; c.GatewayAddr != "" || c.Gateway.TLSAddr != "" { // users come to this worker
		working.Go(func() { e.deps.gateway.Run(work) })
	}
	e.replan()
	e.introduce(work)
	close(e.loaded)
	stop := func() {}
	if e.opts.Listen {
		if stop, err = server.New(e, e.log).Serve(filepath.Join(e.opts.Dir, engineapi.EngineSocket),
			func(err error) { e.deps.problems.Set("socket", err) }); err != nil {
			return err
		}
		stop = sync.OnceFunc(stop)
		defer func() { stop() }()
	}
	e.maintain(work, &working)
	if err := e.opts.Inherited.Ready(ctx, e.opts.Version); err != nil {
		e.log.Warn("the engine before does not hear that this one works", "error", err)
	}
	e.log.Info("engine works", "dir", e.opts.Dir)

	select {
	case <-ctx.Done():
	case <-e.halted:
		e.deps.network.Clear()
	case u := <-e.upgrades:
		lock.keep() // nobody else gets it before this process has ended
		e.applying.Lock()
		idle()
		stopWork(errHandsOver)
		working.Wait()
		done, err := e.handOver(u, lock.file)
		end()
		e.applying.Unlock()
		u.done <- outcome{done, err}
		stop()
		if done.PID == 0 { // this process ends, and its agent starts another
			return fmt.Errorf("handing over to a successor: %w", err)
		}
		lock.release()
		e.drain(ctx, u)
		return nil
	}
	end() // releases waiting readers before the server stops
	return nil
}

// maintain starts the background work beside instances, until ctx is done.
func (e *Engine) maintain(ctx context.Context, working *sync.WaitGroup) {
	for _, run := range []func(context.Context){
		e.uses.Run, e.followLocal, e.deps.logs.Expire, e.deps.images.Run,
		func(ctx context.Context) { e.deps.logs.RotateAll(ctx, e.board.Running) },
		func(context.Context) { e.clearVolumes() },
	} {
		working.Go(func() { run(ctx) })
	}
}

// introduce waits until every instance on disk has been shown, and those that were found again
// have been probed once. An agent must not hear that an instance is missing or not ready because
// the engine has not looked yet: a moment later its cluster would act on it.
func (e *Engine) introduce(ctx context.Context) {
	e.mu.Lock()
	ids := slices.Collect(maps.Keys(e.instances))
	e.mu.Unlock()
	timeout := time.After(introduceWithin)
	for {
		_, changed := e.board.Running()
		missing := slices.ContainsFunc(ids, func(id wire.InstanceID) bool {
			_, shown := e.board.Get(id)
			return !shown && e.has(id)
		})
		if !missing && !slices.ContainsFunc(ids, e.board.Unprobed) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			e.log.Warn("some instances are slow to be found again")
			return
		case <-ctx.Done():
			return
		}
	}
}

// has says whether an instance has not been forgotten.
func (e *Engine) has(id wire.InstanceID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.instances[id] != nil
}

// openPorts opens the router's data port and gateway; false if one of them must
// be tried again. What is open already stays so.
func (e *Engine) openPorts(ctx context.Context) bool {
	failed := e.deps.router.Open(ctx)
	if ctx.Err() != nil {
		return false // the end of the engine is no problem of a port
	}
	why := make(map[string]string, len(failed))
	for _, f := range failed {
		why[f.Port] = portProblem(f)
	}
	data, gateway := e.deps.router.DataAddr(), e.deps.router.GatewayAddr()
	e.board.SetAddrs(data, gateway)
	e.deps.gateway.Changed()
	for _, port := range []string{proxy.DataPort, proxy.GatewayPort, proxy.GatewayTLSPort} {
		e.deps.problems.Tell(port, why[port])
	}
	return len(failed) == 0
}

// portProblem says what is wrong with a port of the router and what to do.
func portProblem(f *proxy.PortError) string {
	flag := map[string]string{proxy.DataPort: "--data", proxy.GatewayPort: "--gateway",
		proxy.GatewayTLSPort: "--gateway-tls"}[f.Port]
	another := "stop the worker and start it with another " + flag
	if errors.Is(f.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("%s %s is taken: stop what listens there (it is tried again until it is free), or %s",
			f.Port, f.Addr, another)
	}
	return fmt.Sprintf("%s %s cannot be listened on: %v (it is tried again); %s", f.Port, f.Addr, f.Err, another)
}

// reopenPorts tries until the router's ports are open. A port that is taken must
// not keep instances from running.
func (e *Engine) reopenPorts(ctx context.Context) {
	for pause := firstReopen; ; pause = min(2*pause, slowestReopen) {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if e.openPorts(ctx) {
			return
		}
	}
}
