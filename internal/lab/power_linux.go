package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// PowerOff ends a host as a power cut does: its processes are killed, and what its
// kernel knew of them is gone. Its files are still there.
func (l *Lab) PowerOff(host string) error {
	if err := endAll(func() ([]int, error) { return processesIn(l.files(host)) }); err != nil {
		return err
	}
	left := Groups(l.Dir(host))
	if err := endAll(func() ([]int, error) { return processesOf(left), nil }); err != nil {
		return err
	}
	err := l.Do(host, func() error {
		for _, at := range mountsBelow(l.Dir(host)) {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", at, err)
			}
		}
		links, err := netlink.LinkList()
		for errors.Is(err, netlink.ErrDumpInterrupted) { // some went meanwhile, with their processes
			links, err = netlink.LinkList()
		}
		if err != nil {
			return fmt.Errorf("devices: %w", err)
		}
		for _, x := range links {
			if n := x.Attrs().Name; n == "lo" || n == hostDevice {
				continue
			}
			// A link may have gone with its other end.
			if err := netlink.LinkDel(x); err != nil && !errors.Is(err, unix.ENODEV) && !errors.As(err, new(netlink.LinkNotFoundError)) {
				return fmt.Errorf("remove the device %s: %w", x.Attrs().Name, err)
			}
		}
		if err := NFT("flush ruleset"); err != nil {
			return err
		}
		return netlink.ConntrackTableFlush(netlink.ConntrackTable)
	})
	if err != nil {
		return fmt.Errorf("what the kernel knows of %s: %w", host, err)
	}
	return removeGroups(left)
}

// Boot starts the process of a host's role again, as what it was before.
func (l *Lab) Boot(host string) error { return l.startRole(host, "") }

// mountsBelow are the mounts below dir that the calling thread sees, the last one
// first.
func mountsBelow(dir string) (out []string) {
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		// id, parent, device, root, mount point, …
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			out = append(out, f[4])
		}
	}
	slices.Reverse(out)
	return out
}
