package overlay

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/overlay/link"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/probe"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/wire"
)

// Files below Options.Dir.
const (
	keyFile   = "wireguard.key"
	pathsFile = "paths.json"
)

// paths are the ways to other workers.
type paths struct {
	dev    *wg.Device
	tunnel Tunnel
	tell   func(peer.Paths, Tunnel) // nil: nobody
	prober *probe.Prober
	peers  *peer.Manager
}

// changed shows how others are reached. It is called without any lock.
func (p *paths) changed() {
	if p.tell != nil {
		p.tell(p.peers.Status(), p.tunnel)
	}
}

func (p *paths) close(destroy bool) {
	_ = p.prober.Close() // it may be closed
	if destroy {
		_ = p.dev.Destroy()
		return
	}
	_ = p.dev.Close()
}

// openPathsLocked begins to look for paths. Without them instances of other workers
// are reached by the router, so that it is no reason to have no network.
func (n *Network) openPathsLocked() {
	if n.opts.Paths == nil || n.paths != nil {
		return
	}
	p, err := n.newPathsLocked(n.opts.Paths)
	if err != nil {
		n.log.Warn("no paths to other workers: their instances are reached through the router", "error", err)
		n.opts.Problem("paths to other workers", err.Error())
		return
	}
	n.opts.Problem("paths to other workers", "")
	n.paths = p
	n.tellPathsLocked()
	n.spawn(p.peers.Run)
	n.spawn(func(context.Context) { p.changed() })
}

func (n *Network) newPathsLocked(o *PathOptions) (*paths, error) {
	key, err := wg.EnsureKey(filepath.Join(n.opts.Dir, keyFile))
	if err != nil {
		return nil, err
	}
	port := o.Port
	if port == 0 {
		port = wg.DefaultPort
	}
	// What an operator sets holds for all paths. Otherwise packets of instances may be
	// as large as what leaves the machine, and routes to peers keep them small until one
	// so large has been answered.
	mtu, narrow := o.MTU, 0
	if mtu == 0 {
		if mtu, err = n.links.TunnelMTU(wg.Overhead, wg.DefaultMTU); err != nil {
			return nil, err
		}
		narrow = link.DefaultMTU
	}
	dev, err := wg.Open(wg.Options{Name: n.links.Own(peersDevice), Key: key, Port: port, MTU: mtu, Narrow: narrow,
		Catch: n.links.Own(servicesDevice), Log: n.log})
	if err != nil {
		return nil, fmt.Errorf("%w (--wireguard-port chooses another port)", err)
	}
	rate := n.shape(dev, o.Rate)
	prober, err := probe.Open(n.space.Host6, listenForProbes)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	p := &paths{dev: dev, tunnel: Tunnel{dev.Mode(), mtu, rate}, tell: o.Changed, prober: prober}
	var wide func(context.Context, netip.Addr) bool
	if narrow != 0 && mtu > narrow {
		wide = func(ctx context.Context, to netip.Addr) bool { return prober.Arrives(ctx, to, mtu) }
	}
	p.peers = peer.New(peer.Options{
		Cluster: n.opts.Cluster, Worker: n.opts.Worker, Device: dev, TLS: o.TLS, Away: o.Away, Hidden: o.Hidden,
		PeerName: o.PeerName, RelayName: o.RelayName,
		Verify: o.Verify, Refused: o.Refused, StateFile: filepath.Join(n.opts.Dir, pathsFile), Log: n.log,
		Question: func(ctx context.Context, to netip.Addr) error {
			_, err := prober.Ask(ctx, to)
			return err
		},
		Wide: wide,
		Gone: func(string, string) { n.Changed() },
		Changed: func() {
			n.Changed()
			p.changed()
		},
	})
	return p, nil
}

// listenForProbes opens a socket whose packets are as large as the device allows,
// whatever the route says, and are never sent in fragments.
func listenForProbes(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
		})
		return errors.Join(cerr, err)
	}}
	c, err := lc.ListenPacket(context.Background(), "udp6", at.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// shape bounds what leaves by the tunnel, and returns the bound that holds. A worker
// without it works: only its control may have to wait.
func (n *Network) shape(dev *wg.Device, rate uint64) uint64 {
	what := ""
	if err := dev.Shape(rate); err != nil {
		what, rate = err.Error()+": --uplink has no effect (modprobe sch_tbf)", 0
	}
	n.opts.Problem("uplink", what)
	return rate
}

// tellPathsLocked says what this worker's place is.
func (n *Network) tellPathsLocked() {
	if n.paths == nil || n.given == nil {
		return
	}
	var l wire.Lease
	if err := json.Unmarshal(n.given.Lease.Body, &l); err != nil {
		n.log.Error("lease of the service network", "error", err)
		return
	}
	l.IPv4 = n.space.Worker4 // none where it cannot be used here
	n.paths.peers.SetNetwork(peer.Network{Lease: l, Signed: n.given.Lease, Away: n.given.Away, Inner: n.space.Host6,
		Relays: n.given.Relays})
}

// reachedLocked says whether an instance of another worker is reached at its own
// address, and has a path looked for.
func (n *Network) reachedLocked(e *wire.Endpoint) bool {
	if n.paths == nil {
		return false
	}
	n.paths.peers.Want(peer.Target{Cluster: e.Cluster, Worker: e.Worker, Address: e.Address, Relay: e.Relay,
		Number: numberIn(e.Addrs)})
	return n.paths.peers.Reaches(e.Cluster, e.Worker, e.Addrs[0])
}

// numberIn is the number of the worker that an instance with some addresses is on; 0 if
// they do not say.
func numberIn(addrs []netip.Addr) uint32 {
	for _, a := range addrs {
		if a.Is6() && !a.Is4In6() {
			b := a.As16()
			return binary.BigEndian.Uint32(b[6:])
		}
	}
	return 0
}

// ServeOffer answers a worker that wants to be a peer, and closes conn.
func (n *Network) ServeOffer(ctx context.Context, conn *tls.Conn) {
	n.mu.Lock()
	p := n.paths
	n.mu.Unlock()
	if p == nil {
		_ = conn.Close()
		return
	}
	p.peers.Serve(ctx, conn)
}

// PeersChanged says that PathOptions.Refused may refuse who it did not before: what is
// between this worker and those ends at once.
func (n *Network) PeersChanged() {
	n.mu.Lock()
	p := n.paths
	n.mu.Unlock()
	if p != nil {
		p.peers.PeersChanged()
	}
}

// Measure returns the round trip time to a worker by the path of instances' packets; false
// without a path or an answer.
func (n *Network) Measure(ctx context.Context, cluster, worker string) (time.Duration, bool) {
	n.mu.Lock()
	p := n.paths
	n.mu.Unlock()
	if p == nil {
		return 0, false
	}
	at, ok := p.peers.Inner(cluster, worker)
	if !ok {
		return 0, false
	}
	rtt, ok := p.prober.Measure(ctx, []netip.Addr{at})[at]
	return rtt, ok
}

// Paths says how other workers are reached.
func (n *Network) Paths() (peer.Paths, error) {
	n.mu.Lock()
	p := n.paths
	n.mu.Unlock()
	if p == nil {
		return peer.Paths{}, fmt.Errorf("this worker has no paths of its own to others")
	}
	return p.peers.Status(), nil
}
