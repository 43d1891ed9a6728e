package wg

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Modes: who encrypts.
const (
	ModeKernel = "kernel"
	ModeUser   = "user"
)

const (
	// DefaultName of the network device.
	DefaultName = "verge-wg"
	// DefaultPort is the UDP port at which a worker is reached by others.
	DefaultPort = 8476
	// Overhead is what WireGuard adds to a packet at most: 60 bytes over IPv4, 80 over
	// IPv6.
	Overhead = 80
	// DefaultMTU leaves room for it in 1500.
	DefaultMTU = 1420
	// maxMTU is what fits the buffers of a device in the process.
	maxMTU = 1920
	// MaxPeers of one device.
	MaxPeers = 4096
)

// ErrUnsupported is wrapped where this machine can have no device at all.
var ErrUnsupported = errors.New("WireGuard is not possible here")

// Options of a Device.
type Options struct {
	// Name of the network device, at most 15 bytes; "" is DefaultName.
	Name string
	// Key of the worker.
	Key Private
	// Port for UDP; 0 is any that is free, see Device.Port.
	Port uint16
	// MTU of the device; 0 is DefaultMTU.
	MTU int
	// Narrow is the MTU of the routes to a peer until Widen; 0 is MTU.
	Narrow int
	// Mode is ModeKernel or ModeUser; "" is the kernel's where it has it.
	Mode string
	// Catch is a device that takes packets for peers while this device is gone with its process.
	// Otherwise they would leave the machine by another path, unencrypted. "": none.
	Catch string
	// Log; nil is slog's default.
	Log *slog.Logger
}

// Peer is what to set of a peer. What is zero stays as it is.
type Peer struct {
	Key      Key
	Endpoint netip.AddrPort
	// Allowed addresses, and routes to them.
	Allowed []netip.Prefix
	// Keepalive is the time between packets that keep a NAT open, in whole seconds;
	// negative is none.
	Keepalive time.Duration
}

// Status is what the device knows of a peer.
type Status struct {
	Key      Key
	Endpoint netip.AddrPort
	// Handshake is when the last one was complete; zero: none.
	Handshake time.Time
	// Rx and Tx count bytes since the peer was added, with those of handshakes and
	// keepalives.
	Rx, Tx uint64
}

// engine is one of the two ways to encrypt. Methods are called with Device.mu.
type engine interface {
	set(p Peer) error
	remove(k Key) error
	peers() (map[Key]Status, error)
	// nudge sends a packet to the peer's endpoint now, a handshake if there is no
	// session, and leaves the keepalive at after.
	nudge(k Key, after time.Duration) error
	port() (uint16, error)
	close() error
}

// Device is one WireGuard device. It is safe for concurrent use.
type Device struct {
	opts  Options
	mode  string
	why   string
	index int
	log   *slog.Logger

	mu      sync.Mutex // guards below
	eng     engine
	allowed map[Key][]netip.Prefix
	keep    map[Key]time.Duration
	wide    map[Key]bool
}

// Open makes the device, or takes over the kernel's of that name, and sets it up.
// The error wraps ErrUnsupported where the machine has neither of the two ways.
func Open(o Options) (*Device, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.MTU == 0 {
		o.MTU = DefaultMTU
	}
	if o.MTU < 1280 || o.MTU > maxMTU {
		return nil, fmt.Errorf("open the WireGuard device: MTU %d: want 1280 to %d", o.MTU, maxMTU)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Key.key == nil {
		return nil, errors.New("open the WireGuard device: no key")
	}
	d := &Device{opts: o, log: o.Log, allowed: map[Key][]netip.Prefix{}, keep: map[Key]time.Duration{},
		wide: map[Key]bool{}}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open the WireGuard device %s: %w", o.Name, err)
	}
	return d, nil
}

// Name of the network device.
func (d *Device) Name() string { return d.opts.Name }

// Index of the network device.
func (d *Device) Index() int { return d.index }

// Mode is ModeKernel or ModeUser.
func (d *Device) Mode() string { return d.mode }

// Why says in words why Mode is not ModeKernel; "" if it is.
func (d *Device) Why() string { return d.why }

// Public key of this worker.
func (d *Device) Public() Key { return d.opts.Key.Public() }

// MTU of the device.
func (d *Device) MTU() int { return d.opts.MTU }

var errClosed = errors.New("the WireGuard device is closed")

// Port at which others reach this device over UDP.
func (d *Device) Port() (uint16, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return 0, errClosed
	}
	return d.eng.port()
}

// Set adds or changes a peer.
func (d *Device) Set(p Peer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return errClosed
	}
	before, known := d.allowed[p.Key]
	if !known && len(d.allowed) >= MaxPeers {
		return fmt.Errorf("add a WireGuard peer: there are %d, which is the most", MaxPeers)
	}
	if err := d.eng.set(p); err != nil {
		return fmt.Errorf("set WireGuard peer %s: %w", p.Key, err)
	}
	if p.Keepalive != 0 {
		d.keep[p.Key] = max(0, p.Keepalive)
	}
	if p.Allowed == nil {
		d.allowed[p.Key] = before
		return nil
	}
	d.allowed[p.Key] = p.Allowed
	return d.route(before, p.Allowed, d.narrow(p.Key))
}

// narrow is the MTU of the routes to a peer, 0 for the device's.
func (d *Device) narrow(k Key) int {
	if d.wide[k] {
		return 0
	}
	return d.opts.Narrow
}

// Widen says whether packets as large as the device's MTU reach a peer, until it is
// removed.
func (d *Device) Widen(k Key, wide bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	allowed, known := d.allowed[k]
	if d.eng == nil || !known || d.wide[k] == wide {
		return nil
	}
	d.wide[k] = wide
	return d.route(nil, allowed, d.narrow(k))
}

// Remove takes a peer and its routes away. One that is not there is no error.
func (d *Device) Remove(k Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return errClosed
	}
	// The routes first: what is sent from now on shall not be lost in the device.
	err := d.route(d.allowed[k], nil, 0)
	delete(d.wide, k)
	delete(d.allowed, k)
	delete(d.keep, k)
	if e := d.eng.remove(k); e != nil {
		err = errors.Join(err, fmt.Errorf("remove WireGuard peer %s: %w", k, e))
	}
	return err
}

// Nudge sends a packet to a peer now: a handshake if there is no session.
func (d *Device) Nudge(k Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return errClosed
	}
	if err := d.eng.nudge(k, d.keep[k]); err != nil {
		return fmt.Errorf("send to WireGuard peer %s: %w", k, err)
	}
	return nil
}

// Peers are the peers by key.
func (d *Device) Peers() (map[Key]Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return nil, errClosed
	}
	p, err := d.eng.peers()
	if err != nil {
		return nil, fmt.Errorf("read the WireGuard peers: %w", err)
	}
	return p, nil
}

// Close lets go of the device. The kernel's stays, with its peers; one in the
// process ends.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return nil
	}
	err := d.eng.close()
	d.eng = nil
	return err
}

// seconds of a keepalive.
func seconds(t time.Duration) int {
	if t <= 0 {
		return 0
	}
	return int(min((t+time.Second-1)/time.Second, 65535))
}
