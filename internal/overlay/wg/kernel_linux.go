package wg

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	// WireGuard's own client for its kernel interface.
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

var errNoKernel = errors.New("the kernel has no WireGuard (modprobe wireguard would bring it)")

// kernel is WireGuard in the kernel.
type kernel struct {
	name string
	ctl  *wgctrl.Client
}

func openKernel(o Options) (*kernel, error) {
	link := &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: o.Name, MTU: o.MTU}}
	err := netlink.LinkAdd(link)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, errNoKernel
	case errors.Is(err, unix.EEXIST):
		if err := takeOver(o); err != nil {
			return nil, err
		}
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("%w: %w: the worker needs CAP_NET_ADMIN", ErrUnsupported, err)
	case err != nil:
		return nil, err
	}
	ctl, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("speak to the kernel's WireGuard: %w", err)
	}
	k := &kernel{o.Name, ctl}
	key, port := wgtypes.Key(o.Key.key.Bytes()), int(o.Port)
	cfg := wgtypes.Config{PrivateKey: &key}
	if was, err := ctl.Device(o.Name); err != nil || was.PrivateKey != key || port != 0 && was.ListenPort != port ||
		was.ListenPort == 0 {
		// Setting the port anew would open another socket.
		cfg.ListenPort = &port
	}
	if err := ctl.ConfigureDevice(o.Name, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("give it key and port %d: %w", o.Port, err), ctl.Close())
	}
	return k, nil
}

// takeOver checks what has the name already.
func takeOver(o Options) error {
	link, err := netlink.LinkByName(o.Name)
	if err != nil {
		return err
	}
	if link.Type() != "wireguard" {
		return fmt.Errorf("a network device %s of type %s is there already: remove it (ip link del %s)", o.Name,
			link.Type(), o.Name)
	}
	return netlink.LinkSetMTU(link, o.MTU)
}

// known is what the device had before.
func (k *kernel) known() (map[Key][]netip.Prefix, map[Key]time.Duration, error) {
	dev, err := k.ctl.Device(k.name)
	if err != nil {
		return nil, nil, fmt.Errorf("read its peers: %w", err)
	}
	allowed, keep := map[Key][]netip.Prefix{}, map[Key]time.Duration{}
	for _, p := range dev.Peers {
		keep[Key(p.PublicKey)] = p.PersistentKeepaliveInterval
		var nets []netip.Prefix
		for _, n := range p.AllowedIPs {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				ones, _ := n.Mask.Size()
				nets = append(nets, netip.PrefixFrom(a.Unmap(), ones))
			}
		}
		allowed[Key(p.PublicKey)] = nets
	}
	return allowed, keep, nil
}

func (k *kernel) configure(p wgtypes.PeerConfig) error {
	return k.ctl.ConfigureDevice(k.name, wgtypes.Config{Peers: []wgtypes.PeerConfig{p}})
}

func (k *kernel) set(p Peer) error {
	c := wgtypes.PeerConfig{PublicKey: wgtypes.Key(p.Key)}
	if p.Endpoint.IsValid() {
		c.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
	}
	if p.Keepalive != 0 {
		t := max(0, p.Keepalive)
		c.PersistentKeepaliveInterval = &t
	}
	if p.Allowed != nil {
		c.ReplaceAllowedIPs = true
		for _, a := range p.Allowed {
			c.AllowedIPs = append(c.AllowedIPs,
				net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())})
		}
	}
	return k.configure(c)
}

func (k *kernel) remove(key Key) error {
	return k.configure(wgtypes.PeerConfig{PublicKey: wgtypes.Key(key), Remove: true, UpdateOnly: true})
}

func (k *kernel) nudge(key Key, after time.Duration) error {
	for _, t := range []time.Duration{0, max(after, time.Second), after} {
		c := wgtypes.PeerConfig{PublicKey: wgtypes.Key(key), UpdateOnly: true, PersistentKeepaliveInterval: &t}
		if err := k.configure(c); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernel) peers() (map[Key]Status, error) {
	dev, err := k.ctl.Device(k.name)
	if err != nil {
		return nil, err
	}
	out := make(map[Key]Status, len(dev.Peers))
	for _, p := range dev.Peers {
		s := Status{Key: Key(p.PublicKey), Handshake: p.LastHandshakeTime, Rx: uint64(p.ReceiveBytes),
			Tx: uint64(p.TransmitBytes)}
		if p.Endpoint != nil {
			ap := p.Endpoint.AddrPort()
			s.Endpoint = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		}
		out[s.Key] = s
	}
	return out, nil
}

func (k *kernel) port() (uint16, error) {
	dev, err := k.ctl.Device(k.name)
	if err != nil {
		return 0, err
	}
	return uint16(dev.ListenPort), nil
}

func (k *kernel) close() error { return k.ctl.Close() }
