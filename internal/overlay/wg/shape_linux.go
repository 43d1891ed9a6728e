package wg

import (
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// A burst has what the rate carries in 4 ms, and room for whole packets: larger
	// ones, that an offload put together, are taken apart if they do not fit.
	burstsASecond, leastBurst = 250, 4096
	// The queue holds 50 ms where it is a plain one.
	queuesASecond = 20
	// A process that encrypts may not run for a while. What waits for it meanwhile,
	// behind the queue, leaves all at once then, and is 33 ms at most: the line would
	// need twenty times as long to be free of it.
	ringsASecond, leastRing, usualRing = 30, 4, 500
	fullPacket                         = 1500
)

// Shape holds what leaves through the device below a rate in bits a second, as it is
// with what WireGuard adds. So the queue is here, a short one in which connections
// take turns where the kernel can have that, and not in a modem, where control would
// wait in it too. 0 ends it.
func (d *Device) Shape(rate uint64) error {
	attrs := netlink.QdiscAttrs{LinkIndex: d.index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if rate == 0 {
		err := netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs})
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("end the shaping of %s: %w", d.opts.Name, err)
		}
		return d.ring(usualRing)
	}
	bytes := rate / 8
	burst := max(bytes/burstsASecond, leastBurst)
	opt := nl.TcTbfQopt{
		Rate:   nl.TcRateSpec{Rate: uint32(min(bytes, math.MaxUint32)), Overhead: Overhead},
		Buffer: netlink.Xmittime(bytes, uint32(min(burst, math.MaxUint32/2))),
		Limit:  uint32(min(burst+bytes/queuesASecond, math.MaxUint32/2)),
	}
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(nl.TCA_TBF_PARMS, opt.Serialize())
	if bytes > math.MaxUint32 {
		options.AddRtAttr(nl.TCA_TBF_RATE64, nl.Uint64Attr(bytes))
	}
	// The library's own has no place for what is added to a packet.
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(d.index), Handle: attrs.Handle, Parent: attrs.Parent})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("tbf")))
	req.AddData(options)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("shape %s to %d bit/s: %w", d.opts.Name, rate, err)
	}
	fair := netlink.NewFqCodel(netlink.QdiscAttrs{LinkIndex: d.index, Handle: netlink.MakeHandle(2, 0),
		Parent: netlink.MakeHandle(1, 1)})
	if err := netlink.QdiscReplace(fair); err != nil {
		d.log.Debug("the queue of the tunnel is a plain one", "why", err)
	}
	return d.ring(int(min(max(bytes/ringsASecond/fullPacket, leastRing), usualRing)))
}

// ring says how many packets may wait for this process, if it is the one that
// encrypts.
func (d *Device) ring(packets int) error {
	if d.mode != ModeUser {
		return nil
	}
	link, err := netlink.LinkByIndex(d.index)
	if err == nil {
		err = netlink.LinkSetTxQLen(link, packets)
	}
	if err != nil {
		return fmt.Errorf("let %d packets wait behind the queue of %s: %w", packets, d.opts.Name, err)
	}
	return nil
}
