package engine

import (
	"context"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/proximity"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// setNetwork passes the orders to the network. It returns true if instances that wait for their
// place in it can continue.
func (e *Engine) setNetwork(o *engineapi.EngineOrders) (placed bool) {
	placed, wait := e.deps.network.Set(o)
	if wait {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.spawn != nil {
			e.spawn(e.awaitPlace)
		}
	}
	return placed
}

// awaitPlace does without the service network where there is no place for too long.
func (e *Engine) awaitPlace(ctx context.Context) {
	t := time.NewTimer(e.deps.network.PlaceTimeout())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	// Run may be waiting for this very function, with the lock: it hands over.
	if !e.applying.lockUntil(ctx) {
		return
	}
	defer e.applying.Unlock()
	if e.deps.network.GiveUp() {
		e.wakeAll()
		e.replan()
	}
}

// followLocal adds what becomes ready here to services that nobody answers, and as spares to
// others, and takes it away, until ctx is done.
func (e *Engine) followLocal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.deps.readiness:
		}
		if !e.applying.lockUntil(ctx) {
			return
		}
		if routes, changed := e.deps.local.Follow(&e.told); changed {
			o := e.told
			o.Routes = routes
			if e.setNetwork(&o) {
				e.wakeAll() // what kept it from its place before is gone
			}
		}
		e.applying.Unlock()
	}
}

// changed tells the router and the network that Target may answer differently.
func (k *deps) changed() {
	loop.Poke(k.readiness)
	k.router.LocalChanged()
	k.network.Changed()
}

// addrsOf are the addresses of a service for instances of an order.
func (k *deps) addrsOf(o *wire.Order, service string, ports []api.Port) (map[string]string, error) {
	if n := k.network.Overlay(); n != nil {
		return n.ServiceAddrs(o.App, wire.OrderNamespace(o), service, ports)
	}
	return k.router.Reserve(o.App, service, ports)
}

// networkPaths are the paths of the service network, nil without it.
func (e *Engine) networkPaths() proximity.Paths {
	if n := e.deps.network.Overlay(); n != nil {
		return paths{n}
	}
	return nil
}

type paths struct{ network.Overlay }

// Dropped implements proximity.Paths.
func (p paths) Dropped() map[string]uint64 {
	st, err := p.Stats()
	if err != nil {
		return nil // it says what else it knows
	}
	return st.Dropped
}

// Route says how a service ("<application>.<service>") is routed here.
func (e *Engine) Route(ctx context.Context, key string) (rpc.RouteReport, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.RouteReport{}, err
	}
	return e.deps.reporter.Route(ctx, key)
}

// Net says how the other workers are reached to which this one has routes, and measures
// them all.
func (e *Engine) Net(ctx context.Context) (rpc.NetReport, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.NetReport{}, err
	}
	return e.deps.reporter.Net(ctx)
}

// Measure says how far others are, because the cluster asks.
func (e *Engine) Measure(ctx context.Context, q rpc.MeasureAsk) (rpc.Measured, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.Measured{}, err
	}
	return e.deps.reporter.Measure(ctx, q)
}

// usedLately says when services were used by connections that are open, or that the
// router has seen.
func (e *Engine) usedLately(keys []string) map[string]time.Time {
	out := make(map[string]time.Time, len(keys))
	var open map[string]bool
	if n := e.deps.network.Overlay(); n != nil {
		open = n.InUse(keys)
	}
	for _, key := range keys {
		out[key] = e.deps.router.LastUse(key)
		if open[key] {
			out[key] = time.Now()
		}
	}
	return out
}

// appsLocked are the applications with instances or orders here.
func (e *Engine) appsLocked() map[string]bool {
	apps := map[string]bool{}
	for i := range e.orders {
		apps[e.orders[i].App] = true
	}
	for id := range e.instances {
		app, _, _ := strings.Cut(id, ".")
		apps[app] = true
	}
	return apps
}
