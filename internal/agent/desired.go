package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// wanted is what the cluster wants of this worker at a revision. It is replaced, not changed.
type wanted struct {
	have   wire.Rev
	proof  []byte // of have
	orders map[string]*wire.Order
	routes map[string]*wire.Route
	// secrets that the orders need, sealed for this worker, by their id.
	secrets map[string]*wire.SealedSecret
	// revoked are the revoked keys of peers, see EngineOrders.
	revoked map[string]struct{}
	network *wire.Network // nil: the cluster has given no place in it yet
	parts   []string      // see EngineOrders
}

// wantedOf is what an engine was given.
func wantedOf(o engineapi.EngineOrders) wanted {
	w := wanted{
		have: o.Have, proof: o.Proof, network: o.Network, revoked: entries(o.Revoked), parts: o.Parts,
		orders: map[string]*wire.Order{}, routes: map[string]*wire.Route{}, secrets: map[string]*wire.SealedSecret{},
	}
	for i := range o.Orders {
		w.orders[o.Orders[i].ID] = &o.Orders[i]
	}
	for i := range o.Routes {
		w.routes[o.Routes[i].Key()] = &o.Routes[i]
	}
	for i := range o.Secrets {
		w.secrets[o.Secrets[i].ID()] = &o.Secrets[i]
	}
	return w
}

// forEngine is what the engine is given.
func (w *wanted) forEngine() engineapi.EngineOrders {
	out := engineapi.EngineOrders{V: wire.Version, Have: w.have, Proof: w.proof, Revoked: records.SortedKeys(w.revoked),
		Network: w.network, Parts: w.parts}
	for _, id := range records.SortedKeys(w.orders) {
		out.Orders = append(out.Orders, *w.orders[id])
	}
	for _, key := range records.SortedKeys(w.routes) {
		out.Routes = append(out.Routes, *w.routes[key])
	}
	for _, id := range records.SortedKeys(w.secrets) {
		out.Secrets = append(out.Secrets, *w.secrets[id])
	}
	return out
}

// desired is the worker's copy of what its cluster wants of it.
type desired Agent

var _ exchange.DesiredStore = (*desired)(nil)

// Have implements exchange.DesiredStore.
func (d *desired) Have() wire.Rev {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.have
}

// Proof implements exchange.DesiredStore.
func (d *desired) Proof() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proof
}

// partial says whether what is here was fetched by a version of the program that did not know
// all parts of it.
func (d *desired) partial() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(engineapi.OrderParts(), func(p string) bool { return !slices.Contains(d.parts, p) })
}

// Take implements exchange.DesiredStore.
func (d *desired) Take(ctx context.Context, full bool, changes []wire.Change, to wire.Rev, proof []byte) error {
	a := (*Agent)(d)
	a.handing.Lock()
	defer a.handing.Unlock()
	a.mu.Lock()
	next := wanted{
		have: to, proof: proof, orders: map[string]*wire.Order{}, routes: map[string]*wire.Route{},
		secrets: map[string]*wire.SealedSecret{}, revoked: map[string]struct{}{},
		network: a.network, // which is not taken away again: what runs has addresses of it
		parts:   engineapi.OrderParts(),
	}
	if !full {
		next.parts = a.parts
		records.Merge(next.orders, a.orders)
		records.Merge(next.routes, a.routes)
		records.Merge(next.secrets, a.secrets)
		maps.Copy(next.revoked, a.revoked)
	}
	a.mu.Unlock()
	for _, ch := range changes {
		kind, key, _ := strings.Cut(ch.Key, ".")
		var err error
		switch kind += "."; kind {
		case wire.DesiredOrder:
			err = applyChange(next.orders, key, ch)
		case wire.DesiredRoute:
			err = applyChange(next.routes, key, ch)
		case wire.DesiredSecret:
			err = applyChange(next.secrets, key, ch)
		case wire.DesiredNetwork:
			if !ch.Deleted {
				next.network = &wire.Network{}
				err = json.Unmarshal(ch.Value, next.network)
			}
		case wire.DesiredRevoked, wire.DesiredFarRevoked:
			if e := revokedEntry(kind, key, a.joined.Cluster); ch.Deleted {
				delete(next.revoked, e)
			} else {
				next.revoked[e] = struct{}{}
			}
		}
		if err != nil {
			return fmt.Errorf("what the cluster sent for %s: %w", ch.Key, err)
		}
	}
	delta, ok := changesOf(a.have, to, full, changes, next.routes)
	if delta.Proof = proof; ok {
		if err := a.client.Change(ctx, delta); err != nil {
			a.log.Debug("the engine is given all orders, not what changed", "error", err)
			ok = false
		}
	}
	if !ok {
		if err := a.client.Apply(ctx, next.forEngine()); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = next
	a.refuseRevoked()
	return nil
}

// changesOf is what an engine is told that has the orders of a revision, where only
// routes have changed since; false where all must be told.
func changesOf(have, to wire.Rev, full bool, changes []wire.Change,
	routes map[string]*wire.Route) (c engineapi.EngineChanges, ok bool) {
	if full || have.IsZero() {
		return c, false
	}
	c = engineapi.EngineChanges{V: wire.Version, From: have, To: to}
	for _, ch := range changes {
		key, ok := strings.CutPrefix(ch.Key, wire.DesiredRoute)
		if !ok {
			return c, false
		}
		if r := routes[key]; r != nil {
			c.Routes = append(c.Routes, *r)
		} else {
			c.Gone = append(c.Gone, key)
		}
	}
	return c, true
}

func applyChange[T any](m map[string]*T, key string, ch wire.Change) error {
	if ch.Deleted {
		delete(m, key)
		return nil
	}
	return records.Decode(bus.Entry{Key: ch.Key, Value: ch.Value}, m, key)
}
