package link

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	// Opens, makes and enters network namespaces; netlink itself is built on it.
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// nsfs is the type of the file system that namespaces' files are of.
const nsfs = 0x6e736673

// space is an open network namespace.
type space struct {
	ns     netns.NsHandle
	handle *netlink.Handle
}

func (s *space) fd() int { return int(s.ns) }

func (s *space) close() error {
	s.handle.Close()
	return s.ns.Close()
}

func openSpace(path string) (*space, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("enter network namespace %s: %w", path, err), ns.Close())
	}
	return &space{ns: ns, handle: h}, nil
}

// find opens the namespace of an instance; nil where there is none.
func (l *Links) find(s Spec) (*space, error) {
	path := l.Path(s.ID)
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	switch {
	case err == nil && fs.Type == nsfs:
		return openSpace(path)
	case err != nil && !errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("look for network namespace %s: %w", path, err)
	case s.PID == 0:
		return nil, nil
	}
	of := fmt.Sprintf("/proc/%d/ns/net", s.PID)
	if own, err := sameSpace(of); err != nil || own {
		return nil, nil //nolint:nilerr // gone, or never had one of its own: a new one is made
	}
	if err := name(of, path); err != nil {
		return nil, err
	}
	return openSpace(path)
}

// sameSpace says whether a namespace's file is that of this process.
func sameSpace(path string) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Stat(path, &a); err != nil {
		return false, err
	}
	if err := unix.Stat("/proc/self/ns/net", &b); err != nil {
		return false, err
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// name gives a namespace its file.
func name(of, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("file of a network namespace: %w", err)
	}
	_ = f.Close() // nothing was written
	if err := unix.Mount(of, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount network namespace on %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// newSpace makes a namespace with a name.
func (l *Links) newSpace(id string) (*space, error) {
	path := l.Path(id)
	err := onthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		return name(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path)
	})
	if err != nil {
		return nil, err
	}
	return openSpace(path)
}

// drop ends the name of a namespace.
func (l *Links) drop(id string) error {
	path := l.Path(id)
	// Once for each time that it may have been mounted.
	for range 4 {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			break
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}

// inner sets up the end in the namespace.
func (l *Links) inner(ns *space, s Spec) error {
	err := onthread.Do(func() error {
		if err := netns.Set(ns.ns); err != nil {
			return err
		}
		for _, set := range []struct{ path, value string }{
			{"ipv6/conf/" + inside + "/disable_ipv6", "0"},
			{"ipv6/conf/" + inside + "/accept_ra", "0"},
			{"ipv6/conf/" + inside + "/accept_dad", "0"},
			{"ipv6/conf/" + inside + "/addr_gen_mode", "1"},
			{"ipv4/ip_unprivileged_port_start", "0"}, // all ports are the instance's own
		} {
			if err := sysctl(set.path, set.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	lo, err := ns.handle.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback device: %w", err)
	}
	if err := ns.handle.LinkSetUp(lo); err != nil {
		return fmt.Errorf("switch the loopback on: %w", err)
	}
	dev, err := ns.handle.LinkByName(inside)
	if err != nil {
		return fmt.Errorf("device %s: %w", inside, err)
	}
	if err := ns.handle.LinkSetMTU(dev, l.opts.MTU); err != nil {
		return fmt.Errorf("MTU of %s: %w", inside, err)
	}
	if err := ns.handle.LinkSetUp(dev); err != nil {
		return fmt.Errorf("switch %s on: %w", inside, err)
	}
	for _, x := range []struct{ own, gateway netip.Addr }{{s.Addr6, gateway6}, {s.Addr4, gateway4}} {
		if !x.own.IsValid() {
			continue
		}
		if err := connect(ns.handle, dev, x.own, x.gateway); err != nil {
			return err
		}
	}
	return nil
}

// connect gives a device its address and the way out.
func connect(h *netlink.Handle, dev netlink.Link, own, gateway netip.Addr) error {
	index := dev.Attrs().Index
	family, flags := netlink.FAMILY_V4, 0
	if own.Is6() {
		family, flags = netlink.FAMILY_V6, unix.IFA_F_NODAD
	}
	had, err := h.AddrList(dev, family)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", inside, err)
	}
	for i := range had {
		if a, ok := netip.AddrFromSlice(had[i].IP); ok && a.Unmap() != own && !a.IsLinkLocalUnicast() {
			if err := h.AddrDel(dev, &had[i]); err != nil {
				return fmt.Errorf("remove the former address %s: %w", a, err)
			}
		}
	}
	if err := h.AddrReplace(dev, &netlink.Addr{IPNet: single(own), Flags: flags}); err != nil {
		return fmt.Errorf("address %s: %w", own, err)
	}
	if err := h.NeighSet(neighbour(index, gateway, outerMAC)); err != nil {
		return fmt.Errorf("neighbour %s: %w", gateway, err)
	}
	route := &netlink.Route{LinkIndex: index, Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK), Family: family}
	if err := h.RouteReplace(route); err != nil {
		return fmt.Errorf("default route by %s: %w", gateway, err)
	}
	return nil
}
