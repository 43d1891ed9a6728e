package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	// The kernel's own interface, kept by those who also keep Docker's networks.
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/hostnet"
)

// DefaultMTU lets a packet pass any path of IPv6, within a tunnel as well.
const DefaultMTU = 1280

// inside is the name of the device within a namespace.
const inside = "eth0"

// Fixed hardware addresses: a pair of devices is a segment of its own, so all may
// have the same, and nobody has to ask for them.
var (
	outerMAC = net.HardwareAddr{0x02, 0x56, 0x47, 0, 0, 0x01}
	innerMAC = net.HardwareAddr{0x02, 0x56, 0x47, 0, 0, 0x02}
)

// Gateways of an instance: addresses that no packet bears, whose only use is that
// the fixed neighbour entry leads to the other end.
var (
	gateway6 = netip.MustParseAddr("fe80::1")
	gateway4 = netip.MustParseAddr("169.254.1.1")
)

// Options of Links.
type Options struct {
	// Dir is where namespaces get their names; it is made.
	Dir string
	// Mark tells the devices of this worker from those of others on the machine: 1 to
	// 6 letters and digits.
	Mark string
	// MTU of instances; 0 is DefaultMTU.
	MTU int
	// Boot is the kernel's id of this boot; "" is as if it were always the same.
	Boot string
}

// Links are the namespaces and devices of a worker's instances. Its methods may be
// called by several goroutines.
type Links struct {
	opts Options
	host *netlink.Handle

	mu sync.Mutex // one change at a time
}

// Spec of a link.
type Spec struct {
	// ID of the instance, safe as a file name.
	ID string
	// Number is unique among the links of the worker, at most 24 bits.
	Number uint32
	// Addr6 of the instance, and Addr4 where it has one.
	Addr6, Addr4 netip.Addr
	// PID of a process in the namespace: where its name is lost (a mount namespace
	// that is gone, a power cut of the file system alone) it is found by that. 0: none.
	PID int
}

// Link is one that is there.
type Link struct {
	// NetNS is the path of the namespace, Device the machine's end.
	NetNS, Device string
	// Index of Device.
	Index int
	// Found says that it had been there before.
	Found bool
}

// Open prepares links; it removes and makes nothing of them.
func Open(o Options) (*Links, error) {
	if o.MTU == 0 {
		o.MTU = DefaultMTU
	}
	if o.Mark == "" || len(o.Mark) > 6 {
		return nil, fmt.Errorf("link: mark %q must have 1 to 6 characters", o.Mark)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of network namespaces: %w", err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Links{opts: o, host: h}, nil
}

// SetMTU is that of instances from the next Make on, for who finds it out after Open.
func (l *Links) SetMTU(mtu int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opts.MTU = mtu
}

// Close lets go of the kernel's interface. All links stay.
func (l *Links) Close() { l.host.Close() }

// Prefix of the names of the machine's ends of all links.
func (l *Links) Prefix() string { return hostnet.Devices + l.opts.Mark + "i" }

// Device is the name of the machine's end of the link with a number.
func (l *Links) Device(number uint32) string {
	return l.Prefix() + strconv.FormatUint(uint64(number), 16)
}

// Own is the name of a device of the worker itself, by one letter but i.
func (l *Links) Own(letter string) string { return hostnet.Devices + l.opts.Mark + letter }

// Path is that of the namespace of an instance.
func (l *Links) Path(id string) string { return filepath.Join(l.opts.Dir, id) }

// Make makes the link of an instance, or finds it again and mends it.
func (l *Links) Make(s Spec) (Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Link{NetNS: l.Path(s.ID), Device: l.Device(s.Number)}
	ns, err := l.find(s)
	if err != nil {
		return Link{}, err
	}
	dev, err := l.host.LinkByName(out.Device)
	if err != nil && !absent(err) {
		return Link{}, fmt.Errorf("look for device %s: %w", out.Device, err)
	}
	out.Found = ns != nil && dev != nil && l.connected(ns, dev)
	if !out.Found {
		if dev != nil {
			if err := l.host.LinkDel(dev); err != nil && !absent(err) {
				return Link{}, fmt.Errorf("remove a device that leads nowhere: %w", err)
			}
		}
		if ns == nil {
			if ns, err = l.newSpace(s.ID); err != nil {
				return Link{}, err
			}
		}
		if dev, err = l.pair(ns, out.Device); err != nil {
			_ = ns.close()
			return Link{}, errors.Join(err, l.drop(s.ID))
		}
	}
	defer func() { _ = ns.close() }()
	err = l.inner(ns, s)
	if err == nil {
		err = l.outer(dev, s)
	}
	if err == nil {
		err = l.carries(ns, dev.Attrs().Name)
	}
	if err != nil {
		return Link{}, fmt.Errorf("network of %s: %w", s.ID, err)
	}
	out.Index = dev.Attrs().Index
	return out, nil
}

// pair makes the two devices.
func (l *Links) pair(ns *space, name string) (netlink.Link, error) {
	// A device of the same name that was there before the instance's program chose
	// to make it is in its own way only.
	if old, err := ns.handle.LinkByName(inside); err == nil {
		if err := ns.handle.LinkDel(old); err != nil {
			return nil, fmt.Errorf("remove the former device: %w", err)
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, l.opts.MTU, outerMAC
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: inside, PeerHardwareAddr: innerMAC,
		PeerNamespace: netlink.NsFd(ns.fd())}
	if err := l.host.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make the pair of devices %s: %w", name, err)
	}
	return l.host.LinkByName(name)
}

// connected says whether the other end of a device is in ns.
func (l *Links) connected(ns *space, dev netlink.Link) bool {
	in, err := ns.handle.LinkByName(inside)
	return err == nil && dev.Type() == "veth" &&
		in.Attrs().ParentIndex == dev.Attrs().Index && dev.Attrs().ParentIndex == in.Attrs().Index
}

// outer sets up the machine's end.
func (l *Links) outer(dev netlink.Link, s Spec) error {
	name := dev.Attrs().Name
	for _, set := range []struct{ path, value string }{
		{"ipv6/conf/" + name + "/disable_ipv6", "0"},
		{"ipv6/conf/" + name + "/accept_ra", "0"},
		{"ipv6/conf/" + name + "/accept_redirects", "0"},
		{"ipv6/conf/" + name + "/accept_dad", "0"},
		{"ipv6/conf/" + name + "/addr_gen_mode", "1"},
		{"ipv4/conf/" + name + "/forwarding", "1"},
		{"ipv4/conf/" + name + "/accept_redirects", "0"},
		{"ipv4/conf/" + name + "/send_redirects", "0"},
	} {
		if err := sysctl(set.path, set.value); err != nil {
			return err
		}
	}
	if err := l.host.LinkSetMTU(dev, l.opts.MTU); err != nil {
		return fmt.Errorf("MTU of %s: %w", name, err)
	}
	if err := l.host.LinkSetUp(dev); err != nil {
		return fmt.Errorf("switch %s on: %w", name, err)
	}
	for _, a := range []netip.Addr{s.Addr6, s.Addr4} {
		if !a.IsValid() {
			continue
		}
		index := dev.Attrs().Index
		if err := l.host.NeighSet(neighbour(index, a, innerMAC)); err != nil {
			return fmt.Errorf("neighbour %s: %w", a, err)
		}
		route := &netlink.Route{LinkIndex: index, Dst: single(a), Scope: netlink.SCOPE_LINK}
		if err := l.host.RouteReplace(route); err != nil {
			return fmt.Errorf("route to %s: %w", a, err)
		}
	}
	return nil
}

// carries waits until both ends take packets. The kernel puts a device to work a
// moment after it was switched on, and drops what comes before: of a program's first
// question to the name server it would be seconds until the second.
func (l *Links) carries(ns *space, name string) error {
	const timeout, pause = time.Second, 200 * time.Microsecond
	for begin := time.Now(); ; time.Sleep(pause) {
		out, err := l.host.LinkByName(name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		in, err := ns.handle.LinkByName(inside)
		if err != nil {
			return fmt.Errorf("look at %s: %w", inside, err)
		}
		if out.Attrs().OperState == netlink.OperUp && in.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Since(begin) > timeout {
			return fmt.Errorf("%s does not carry packets although it is switched on: one end is %s, the other %s", name,
				out.Attrs().OperState, in.Attrs().OperState)
		}
	}
}

// Remove removes the link of an instance, with its namespace, if it exists.
func (l *Links) Remove(id string, number uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.unplug(l.Device(number)), l.drop(id))
}

func (l *Links) unplug(name string) error {
	dev, err := l.host.LinkByName(name)
	if err == nil {
		err = l.host.LinkDel(dev)
	}
	if err != nil && !absent(err) {
		return fmt.Errorf("remove device %s: %w", name, err)
	}
	return nil
}

// Sweep removes all links of this worker but those of keep, by ID and number.
func (l *Links) Sweep(keep map[string]uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	devices := make(map[string]bool, len(keep))
	for _, n := range keep {
		devices[l.Device(n)] = true
	}
	var errs []error
	all, err := l.host.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		errs = append(errs, fmt.Errorf("list devices: %w", err))
	}
	for _, dev := range all {
		name := dev.Attrs().Name
		if strings.HasPrefix(name, l.Prefix()) && !devices[name] {
			errs = append(errs, l.unplug(name))
		}
	}
	names, err := os.ReadDir(l.opts.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("list network namespaces: %w", err))
	}
	for _, f := range names {
		if _, kept := keep[f.Name()]; !kept {
			errs = append(errs, l.drop(f.Name()))
		}
	}
	return errors.Join(errs...)
}

// Clear removes everything that bears the worker's mark, its own devices too.
func (l *Links) Clear() error {
	errs := []error{l.Sweep(nil)}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.host.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		errs = append(errs, fmt.Errorf("list devices: %w", err))
	}
	for _, dev := range all {
		if name := dev.Attrs().Name; len(name) == len(l.Own("x")) && strings.HasPrefix(name, l.Own("")) {
			errs = append(errs, l.unplug(name))
		}
	}
	if err := os.Remove(l.opts.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove the directory of network namespaces: %w", err))
	}
	return errors.Join(errs...)
}

func absent(err error) bool {
	var gone netlink.LinkNotFoundError
	return errors.As(err, &gone) || errors.Is(err, unix.ENODEV)
}

func neighbour(index int, a netip.Addr, mac net.HardwareAddr) *netlink.Neigh {
	family := netlink.FAMILY_V6
	if a.Is4() {
		family = netlink.FAMILY_V4
	}
	return &netlink.Neigh{
		LinkIndex: index, Family: family, State: netlink.NUD_PERMANENT,
		IP: a.AsSlice(), HardwareAddr: mac,
	}
}

func single(a netip.Addr) *net.IPNet { return network(netip.PrefixFrom(a, a.BitLen())) }

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// sysctl writes a setting below /proc/sys/net of the network namespace of the
// calling thread.
func sysctl(path, value string) error {
	full := "/proc/sys/net/" + path
	now, err := os.ReadFile(full) //nolint:gosec // a path of ours
	if err == nil && strings.TrimSpace(string(now)) == value {
		return nil // it may be right and read-only
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without it
	}
	if err := os.WriteFile(full, []byte(value), 0o644); err != nil { //nolint:gosec // it is there
		return fmt.Errorf("set %s to %s: %w", full, value, err)
	}
	return nil
}
