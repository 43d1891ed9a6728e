package wg

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	// Links, routes and queues over netlink, instead of calling ip and tc.
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks routes as ours, so that they are told from the host's.
const routeProtocol = 168

// lastResort is the metric of routes that hold only where there is no other.
const lastResort = 1 << 20

func (d *Device) open() error {
	if d.opts.Mode != ModeUser {
		eng, err := openKernel(d.opts)
		if err == nil {
			d.eng, d.mode = eng, ModeKernel
			return d.adopt()
		}
		if d.opts.Mode == ModeKernel || !errors.Is(err, errNoKernel) {
			return err
		}
		d.why = err.Error()
	}
	eng, err := openUser(d.opts)
	if err != nil {
		return err
	}
	d.eng, d.mode = eng, ModeUser
	return d.adopt()
}

// adopt finds out what the device has already.
func (d *Device) adopt() error {
	link, err := netlink.LinkByName(d.opts.Name)
	if err == nil {
		d.index = link.Attrs().Index
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("set it up: %w", err), d.eng.close())
	}
	if k, ok := d.eng.(*kernel); ok {
		if d.allowed, d.keep, err = k.known(); err != nil {
			return errors.Join(err, d.eng.close())
		}
	}
	return nil
}

// route makes the routes of after and removes those that only before had. mtu is
// that of the routes, 0 for the device's.
func (d *Device) route(before, after []netip.Prefix, mtu int) error {
	var errs []error
	for _, p := range before {
		if slices.Contains(after, p) {
			continue
		}
		if err := netlink.RouteDel(d.routeTo(p, 0)); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove the route to %s: %w", p, err))
		}
	}
	for _, p := range after {
		if err := d.catch(p); err != nil {
			errs = append(errs, fmt.Errorf("route %s to %s while %s is not there: %w", p, d.opts.Catch, d.opts.Name,
				err))
		}
		if err := netlink.RouteReplace(d.routeTo(p, mtu)); err != nil {
			errs = append(errs, fmt.Errorf("route %s to %s: %w", p, d.opts.Name, err))
		}
	}
	return errors.Join(errs...)
}

// catch adds the route to a peer that holds while there is no other. It goes with the device
// that it leads to, and not with the peer, which may be about to be made anew.
func (d *Device) catch(p netip.Prefix) error {
	if d.opts.Catch == "" || d.mode != ModeUser {
		return nil
	}
	link, err := netlink.LinkByName(d.opts.Catch)
	if err != nil {
		return err
	}
	r := d.routeTo(p, 0)
	r.LinkIndex, r.Priority = link.Attrs().Index, lastResort
	if err := netlink.RouteAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func (d *Device) routeTo(p netip.Prefix, mtu int) *netlink.Route {
	return &netlink.Route{
		LinkIndex: d.index, Protocol: routeProtocol, MTU: mtu,
		Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
	}
}

// Destroy closes the device and removes it, the kernel's too.
func (d *Device) Destroy() error {
	err := d.Close()
	link, e := netlink.LinkByName(d.opts.Name)
	switch {
	case errors.As(e, new(netlink.LinkNotFoundError)):
		return err
	case e == nil && link.Type() == "wireguard":
		e = netlink.LinkDel(link)
	}
	if e != nil {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", d.opts.Name, e))
	}
	return err
}

// notPossible says what a user can do where there is no TUN.
func notPossible(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: %w: the worker needs CAP_NET_ADMIN and /dev/net/tun", ErrUnsupported, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: %w: load the module (modprobe tun), or give the container /dev/net/tun", ErrUnsupported,
			err)
	}
	return err
}
