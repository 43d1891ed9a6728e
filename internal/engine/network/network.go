package network

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/handover"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// resolvFile is an instance's /etc/resolv.conf, in its directory; maxResolv bounds it.
	resolvFile = "resolv.conf"
	maxResolv  = 1 << 20
	// placeWithin is how long an engine that may do without the service network waits for
	// its worker's place in it once it has orders: a cluster that has places gives one
	// together with the first.
	placeWithin = 20 * time.Second
	// subject of what is wrong with it.
	subject = "service network"
)

// Board shows the state of a worker's network.
type Board interface {
	Get(id wire.InstanceID) (wire.InstanceStatus, bool)
	SetInfo(change func(*engineapi.EngineInfo))
	SetNetworkReason(why string)
}

// Problems shows what is wrong now.
type Problems interface {
	Set(subject string, err error)
	Tell(subject, sentence string)
	Has(subject string) bool
}

// Options of a Network.
type Options struct {
	// Dir is the directory of the engine, Boot the kernel's id of this boot.
	Dir, Boot string
	Config    engineapi.EngineConfig
	Board     Board
	Problems  Problems
	Log       *slog.Logger
	// Revoked are keys of peers that are refused.
	Revoked *pki.Revoked
	// Sockets that it listens at, and may have from the engine before.
	Sockets *handover.Sockets
	// Apart: the engine is in another network namespace than the machine's resolvers.
	Apart bool
	// Distances to other workers; nil: they are not known.
	Distances overlay.Distances
	// Through serves connections to a port of a service by the router, Objects those to
	// objects.
	Through func(ln net.Listener, app, service, port string)
	Objects func(net.Listener)
	// Use notes that a service is used, Await returns when its endpoints are here.
	Use   func(key string)
	Await func(ctx context.Context, key string) error
	// Overlay is used instead of one that is opened here; nil: none.
	Overlay Overlay
	// PlaceWithin replaces the time that it waits for its place; 0: the usual one.
	PlaceWithin time.Duration
}

// Network connects the instances of a worker.
type Network struct {
	o Options
	// overlay is nil where instances share the machine's; refused says why nothing may start,
	// where they must not.
	overlay  Overlay
	refused  error
	declined atomic.Bool
	// optional: where there is no service network the machine's will do.
	optional bool

	mu      sync.Mutex // guards below
	placed  bool       // the worker has its place
	waiting bool       // it waits for that
}

// New decides how instances are connected, and shows that. It holds as long as the engine
// lives; what an earlier one has started and still runs counts more than the settings.
func New(o Options) *Network {
	n := &Network{o: o}
	if o.Overlay != nil {
		n.overlay = o.Overlay
		return n
	}
	info := n.choose()
	o.Board.SetInfo(func(i *engineapi.EngineInfo) { i.Network = info })
	return n
}

// Overlay is the service network, nil where instances share the machine's.
func (n *Network) Overlay() Overlay {
	if n.declined.Load() {
		return nil
	}
	return n.overlay
}

// Wanted says whether instances are connected by the service network, or wait for it.
func (n *Network) Wanted() bool { return n.Overlay() != nil || n.refused != nil }

// ServeOffer answers a worker that wants to be this one's peer.
func (n *Network) ServeOffer(ctx context.Context, conn *tls.Conn) {
	if v := n.Overlay(); v != nil {
		v.ServeOffer(ctx, conn)
		return
	}
	_ = conn.Close()
}

// Changed says that instances may be ready that were not before, or the other way round.
func (n *Network) Changed() {
	if v := n.Overlay(); v != nil {
		v.Changed()
	}
}

// Clear removes what the network has in the kernel, after all instances have been stopped.
func (n *Network) Clear() {
	if v := n.Overlay(); v != nil {
		n.o.Problems.Set(subject, v.Clear())
	}
}

// pathsChanged shows how this worker is reached.
func (n *Network) pathsChanged(p peer.Paths, t overlay.Tunnel) {
	n.o.Board.SetInfo(func(i *engineapi.EngineInfo) {
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

// Set passes the network's part of the orders on. placed is true if instances that wait for their
// place in it can continue; wait is true once, if GiveUp is to be called after PlaceTimeout. One
// Set or GiveUp at a time.
func (n *Network) Set(o *engineapi.EngineOrders) (placed, wait bool) {
	v := n.Overlay()
	if v == nil {
		return false, false
	}
	n.mu.Lock()
	fresh := o.Network != nil && !n.placed
	n.mu.Unlock()
	err := v.Set(o.Network, o.Routes)
	if err == nil && fresh && n.optional {
		err = v.Settle()
	}
	switch {
	case err != nil && fresh && n.optional:
		n.decline(err)
		return true, false
	case err != nil:
		n.o.Log.Error("service network", "error", err) // it shows it as a problem
		return false, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.placed = n.placed || fresh
	switch {
	case fresh:
		n.o.Board.SetNetworkReason("")
	case !n.placed && n.optional && !n.waiting:
		n.waiting = true
		n.o.Board.SetNetworkReason(waitPlace)
		return false, true
	}
	return fresh, false
}

// Restore is Set with the orders that an earlier engine left, before anything else is done
// about them.
func (n *Network) Restore(o *engineapi.EngineOrders) {
	v := n.Overlay()
	if v == nil {
		return
	}
	err := v.Set(o.Network, o.Routes)
	placed := o.Network != nil && err == nil
	n.mu.Lock()
	n.placed = placed // else who waits is woken when it has its place
	n.mu.Unlock()
	switch {
	case err != nil && n.optional:
		n.decline(err)
	case err != nil:
		n.o.Log.Error("service network", "error", err) // it shows it as a problem
	case placed && n.optional:
		n.o.Board.SetNetworkReason("")
	case n.optional && len(o.Orders) > 0:
		// It did without before, and what is ordered must not wait for a cluster.
		n.decline(errors.New(NoPlace))
	}
}

// KeepPlaces tells the network what instances had in it when the last engine ended, before
// any of them is looked at.
func (n *Network) KeepPlaces(records map[wire.InstanceID]state.Record) {
	v := n.Overlay()
	if v == nil {
		return
	}
	for id, rec := range records {
		if rec.Net == nil {
			continue
		}
		if !v.Keep(joining(&rec.Order, rec.Net, 0)) {
			n.o.Log.Warn("its place in the service network is not known again", "instance", id)
		}
	}
	err := v.Settle()
	if err != nil && n.optional {
		n.decline(err)
		return
	}
	n.o.Problems.Set(subject, err)
}

// decline does without the service network, in which nothing is yet. Who waits for it is to
// be woken.
func (n *Network) decline(why error) {
	n.declined.Store(true)
	n.o.Problems.Set(subject, n.overlay.Clear())
	n.overlay.Close()
	n.o.Log.Info("no service network: instances share the machine's", "why", why)
	n.o.Board.SetInfo(func(i *engineapi.EngineInfo) {
		said := wire.NetworkInfo{Mode: wire.NetworkLoopback, Why: why.Error()}
		if i.Network != nil {
			said.Relay = i.Network.Relay
		}
		i.Network = &said
	})
}

// PlaceTimeout is how long to wait for the worker's place before GiveUp.
func (n *Network) PlaceTimeout() time.Duration { return cmp.Or(n.o.PlaceWithin, placeWithin) }

// GiveUp continues without the service network if the worker has no place in it. It reports
// whether that is a change, for waiting instances.
func (n *Network) GiveUp() bool {
	n.mu.Lock()
	placed := n.placed
	n.mu.Unlock()
	if placed || n.Overlay() == nil {
		return false
	}
	n.decline(errors.New(NoPlace))
	return true
}

// Attachment is the part of the service network that an instance has; the zero one shares
// the machine's.
type Attachment struct {
	Place *overlay.Place
	Addrs []netip.Addr
	Host  netip.Addr // the worker's own address there
	// NetNS is the path of its network namespace, Resolv of its /etc/resolv.conf; "" for the
	// machine's.
	NetNS, Resolv string
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

// Attach gives an instance its part of the service network, or finds it again: had is its
// place, pid its process, 0 for none. dir is its directory. Where the worker has none it
// does nothing.
func (n *Network) Attach(o *wire.Order, had *overlay.Place, pid int, dir string) (Attachment, error) {
	inEngine := state.RuntimeOf(o) == api.Wasm // which listens on the loopback for it
	if n.refused != nil && !inEngine {
		return Attachment{}, n.refused
	}
	v := n.Overlay()
	if v == nil || inEngine {
		return Attachment{}, nil
	}
	a, err := v.Attach(joining(o, had, pid))
	if err != nil {
		return Attachment{}, err
	}
	resolv := filepath.Join(dir, resolvFile)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Attachment{}, fmt.Errorf("its directory: %w", err)
	}
	// Written in place: it is mounted where instances run.
	if had, err := atomicfile.ReadBounded(resolv, maxResolv); err != nil || string(had) != string(a.Resolver) {
		if err := os.WriteFile(resolv, a.Resolver, 0o644); err != nil { //nolint:gosec // anybody may read it
			return Attachment{}, fmt.Errorf("its name servers: %w", err)
		}
	}
	return Attachment{Place: &a.Place, Addrs: a.Addrs, Host: a.Host, NetNS: a.NetNS, Resolv: resolv}, nil
}

// Waits says whether a failure to attach is nobody's: it is tried again when there is news.
func (n *Network) Waits(err error) bool {
	return errors.Is(err, overlay.ErrNoLease) || n.refused != nil && errors.Is(err, n.refused)
}

// Detach ends an instance's part of the service network.
func (n *Network) Detach(id wire.InstanceID) error {
	if v := n.Overlay(); v != nil {
		return v.Detach(id)
	}
	return nil
}
