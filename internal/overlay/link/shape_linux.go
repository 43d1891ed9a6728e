package link

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Shape bounds what an instance receives and sends, in bits per second; 0 is no
// bound. Packets beyond wait up to a fifth of a second and are dropped then.
func (l *Links) Shape(id string, number uint32, in, out int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ns, err := openSpace(l.Path(id))
	if err != nil {
		return err
	}
	defer func() { _ = ns.close() }()
	// What it receives is what the machine's end sends.
	err = l.bound(l.host, l.Device(number), in)
	if err == nil {
		err = l.bound(ns.handle, inside, out)
	}
	if err != nil {
		return fmt.Errorf("bandwidth of %s: %w", id, err)
	}
	return nil
}

func (l *Links) bound(h *netlink.Handle, device string, bits int64) error {
	dev, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	attrs := netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_ROOT,
		Handle: netlink.MakeHandle(1, 0)}
	if bits <= 0 {
		err := h.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("end the bound of %s: %w", device, err)
		}
		return nil
	}
	rate := uint64(bits) / 8
	// A burst of what two ticks of 4 ms carry, and of some whole packets at least: a
	// packet that is larger than the burst would never go. Offloads make packets of
	// up to 64 KiB.
	burst := max(rate/125, 64<<10)
	queue := max(rate/5, 128<<10)
	q := &netlink.Tbf{
		QdiscAttrs: attrs, Rate: rate, Limit: uint32(min(burst+queue, 1<<31)), //nolint:gosec // bounded
		Buffer: netlink.Xmittime(rate, uint32(min(burst, 1<<30))), //nolint:gosec // bounded
	}
	if err := h.QdiscReplace(q); err != nil {
		return fmt.Errorf("bound %s: %w", device, err)
	}
	return nil
}
