package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// resolvFile is an instance's /etc/resolv.conf, in its directory.
const resolvFile = "resolv.conf"

// network is what the engine needs of an overlay.Network.
type network interface {
	Start(ctx context.Context)
	Close()
	// Yield is Close but for the ports by which the router is reached, and with doors those
	// at which instances ask for names and objects.
	Yield(doors bool)
	// Clear removes all that is in the kernel.
	Clear() error
	Set(n *wire.Network, routes []wire.Route) error
	Keep(i overlay.Instance) bool
	Settle() error
	Attach(i overlay.Instance) (overlay.Attachment, error)
	Detach(id wire.InstanceID) error
	ServiceAddrs(app, namespace, service string, ports []api.Port) (map[string]string, error)
	Changed()
	// Entries are the addresses of services on this machine, in no order.
	Entries() []overlay.Entry
	// InUse are those of some services, by key, to which connections are open.
	InUse(keys []string) map[string]bool
	// PeersChanged says that peers may be refused now that were not before.
	PeersChanged()
	// Paths to other workers; an error says why there are none.
	Paths() (wire.Paths, error)
	// Stats are its figures at this moment.
	Stats() (overlay.Stats, error)
	// Measure returns the round trip time to a worker by the path of packets; false
	// where there is none.
	Measure(ctx context.Context, cluster, worker string) (time.Duration, bool)
	// ServeOffer answers a worker that wants to be a peer, and closes conn.
	ServeOffer(ctx context.Context, conn *tls.Conn)
}

// serveOffer answers a worker that wants to be this one's peer.
func (e *Engine) serveOffer(ctx context.Context, conn *tls.Conn) {
	n := e.kit.net()
	if n == nil {
		_ = conn.Close()
		return
	}
	n.ServeOffer(ctx, conn)
}

// pathsChanged shows how this worker is reached.
func (e *Engine) pathsChanged(p wire.Paths, t overlay.Tunnel) {
	e.board.SetInfo(func(i *wire.EngineInfo) {
		if i.Network == nil {
			return
		}
		info := *i.Network
		info.WireGuard, info.Via = t.Mode, p.Relay
		info.Port, info.MTU, info.Uplink = p.Port, t.MTU, api.Bitrate(t.Rate) //nolint:gosec // at most MaxBitrate
		i.Network = &info
	})
}

// relayName is the name in the certificate of a relay: see wire.Relay.
func relayName(relay string) string {
	if cluster, worker, ok := strings.Cut(relay, "/"); ok {
		return pki.WorkerName(cluster, worker)
	}
	return pki.RootName
}

// setNetwork tells the network what the orders say of it. True if instances that wait
// for their place in it can go on.
func (e *Engine) setNetwork(o *wire.EngineOrders) (placed bool) {
	n := e.kit.net()
	if n == nil {
		return false
	}
	e.mu.Lock()
	fresh := o.Network != nil && !e.placed
	e.mu.Unlock()
	err := n.Set(o.Network, o.Routes)
	if err == nil && fresh && e.kit.optional {
		err = n.Settle()
	}
	switch {
	case err != nil && fresh && e.kit.optional:
		e.decline(err)
		return true
	case err != nil:
		e.log.Error("service network", "error", err) // it shows it as a problem
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	placed = fresh
	e.placed = e.placed || placed
	switch {
	case placed:
		e.board.SetNetworkReason("")
	case !e.placed && e.kit.optional && !e.patient && e.spawn != nil:
		e.patient = true
		e.board.SetNetworkReason(waitPlace)
		e.spawn(e.awaitPlace)
	}
	return placed
}

// startNetwork is setNetwork with the orders that an earlier engine left, before
// anything else is done about them; e.mu is held.
func (e *Engine) startNetwork(o *wire.EngineOrders) {
	n := e.kit.net()
	err := n.Set(o.Network, o.Routes)
	e.placed = o.Network != nil && err == nil // else who waits is woken when it has its place
	switch {
	case err != nil && e.kit.optional:
		e.decline(err)
	case err != nil:
		e.log.Error("service network", "error", err) // it shows it as a problem
	case e.placed && e.kit.optional:
		e.board.SetNetworkReason("")
	case e.kit.optional && len(o.Orders) > 0:
		// It did without before, and what is ordered must not wait for a cluster.
		e.decline(errors.New(noPlace))
	}
}

// keepPlaces tells the network what instances had in it when the last engine ended,
// before any of them is looked at.
func (e *Engine) keepPlaces(records map[wire.InstanceID]state.Record) {
	n := e.kit.net()
	if n == nil {
		return
	}
	for id, rec := range records {
		if rec.Net == nil {
			continue
		}
		if !n.Keep(joining(&rec.Order, rec.Net, 0)) {
			e.log.Warn("its place in the service network is not known again", "instance", id)
		}
	}
	err := n.Settle()
	if err != nil && e.kit.optional {
		e.decline(err)
		return
	}
	e.kit.problems.Set("service network", err)
}

// changed tells those who send connections that answers of Target may be others.
func (k *kit) changed() {
	k.localChanged()
	k.router.LocalChanged()
	if n := k.net(); n != nil {
		n.Changed()
	}
}

func joining(o *wire.Order, had *overlay.Place, pid int) overlay.Instance {
	i := overlay.Instance{ID: o.ID, App: o.App, Namespace: wire.OrderNamespace(o), AppNumber: o.AppNumber, PID: pid}
	if o.Spec != nil {
		i.In, i.Out = int64(o.Spec.Bandwidth.In), int64(o.Spec.Bandwidth.Out)
	}
	if had != nil {
		i.Had = *had
		if i.AppNumber == 0 {
			i.AppNumber = had.App
		}
	}
	return i
}

// attach gives the instance its part of the service network, or finds it again.
// Where the worker has none it does nothing.
func (in *instance) attach(o *wire.Order) error {
	inEngine := state.RuntimeOf(o) == api.Wasm // which listens on the loopback for it
	if in.kit.noNetwork != nil && !inEngine {
		return in.kit.noNetwork
	}
	n := in.kit.net()
	if n == nil || inEngine {
		in.rec.Net, in.addrs, in.netns, in.resolv, in.host = nil, nil, "", "", netip.Addr{}
		return nil
	}
	pid := 0
	if in.rec.Handle != nil {
		pid = in.rec.Handle.PID
	}
	a, err := n.Attach(joining(o, in.rec.Net, pid))
	if err != nil {
		return err
	}
	resolv := filepath.Join(in.place.Dir, resolvFile)
	if err := os.MkdirAll(in.place.Dir, 0o700); err != nil {
		return fmt.Errorf("its directory: %w", err)
	}
	// Written in place: it is mounted where instances run.
	if had, err := atomicfile.ReadBounded(resolv, maxConfig); err != nil || string(had) != string(a.Resolver) {
		if err := os.WriteFile(resolv, a.Resolver, 0o644); err != nil { //nolint:gosec // anybody may read it
			return fmt.Errorf("its name servers: %w", err)
		}
	}
	in.rec.Net, in.addrs, in.netns, in.resolv, in.host = &a.Place, a.Addrs, a.NetNS, resolv, a.Host
	return nil
}

// waitsForNetwork says whether a failure to attach is nobody's: it is tried again
// when there is news.
func (in *instance) waitsForNetwork(err error) bool {
	return errors.Is(err, overlay.ErrNoLease) || in.kit.noNetwork != nil && errors.Is(err, in.kit.noNetwork)
}

// detach ends the instance's part of the service network.
func (in *instance) detach() error {
	n := in.kit.net()
	if n == nil {
		return nil
	}
	in.addrs, in.netns, in.resolv, in.host = nil, "", "", netip.Addr{}
	return n.Detach(in.id)
}

// clearNetwork removes what the network has in the kernel, after all instances have
// been stopped.
func (e *Engine) clearNetwork() {
	if n := e.kit.net(); n != nil {
		e.kit.problems.Set("service network", n.Clear())
	}
}

// addrsOf are the addresses by which instances of an order reach a service.
func (k *kit) addrsOf(o *wire.Order, service string, ports []api.Port) (map[string]string, error) {
	if n := k.net(); n != nil {
		return n.ServiceAddrs(o.App, wire.OrderNamespace(o), service, ports)
	}
	return k.router.Reserve(o.App, service, ports)
}

// objectsAt is where an instance with a network of its own reaches the objects of its
// worker, "" for one that shares the machine's.
func (s *snapshot) objectsAt() string {
	if s.netns == "" || !s.host.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(s.host, overlay.ObjectsPort).String()
}
