package first

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxPacket is the MTU of the device, the kernel's for one of its kind.
const maxPacket = 1500

// maxWaiting packets wait at a time; further ones are lost, and sent again.
const maxWaiting = 64

// Device takes packets to service addresses.
type Device struct {
	// Lost says that a packet for an address is not one to a service, and is dropped without an
	// answer; its sender retries. nil: none.
	Lost func(netip.Addr) bool

	f *os.File
	// waiting are packets for which a lookup is under way.
	waiting chan struct{}

	// Known and Nobody count packets: those that were written back, and those to
	// addresses of nobody.
	Known, Nobody atomic.Uint64
}

// Open makes the device with a name, or opens the one that is there.
func Open(name string) (*Device, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make device %s: %w", name, err), unix.Close(fd))
	}
	return &Device{f: os.NewFile(uintptr(fd), name), waiting: make(chan struct{}, maxWaiting)}, nil
}

// Close lets go of the device, which stays.
func (d *Device) Close() error { return d.f.Close() }

// Run looks at packets until ctx is done or the device is closed. known is asked
// for each destination; it makes the rule where there is to be one, and says
// whether there is one now, or how to wait for that.
func (d *Device) Run(ctx context.Context, known func(netip.Addr) (there bool, later func(context.Context) bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = d.f.Close() })()
	b := make([]byte, maxPacket)
	for {
		n, err := d.f.Read(b)
		switch {
		case ctx.Err() != nil || errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EBADFD): // closed, or removed
			return nil
		case errors.Is(err, unix.EIO): // switched off for now
			return fmt.Errorf("device for services: %w", err)
		case err != nil:
			return fmt.Errorf("read from the device for services: %w", err)
		}
		packet := b[:n]
		to, ok := destination(packet)
		if !ok || d.Lost != nil && d.Lost(to) {
			continue
		}
		there, later := known(to)
		if later == nil {
			d.back(packet, there)
			continue
		}
		select {
		case d.waiting <- struct{}{}:
			packet := bytes.Clone(packet)
			wg.Go(func() {
				defer func() { <-d.waiting }()
				there := later(ctx)
				if ctx.Err() == nil {
					d.back(packet, there)
				}
			})
		default:
		}
	}
}

// back writes a packet back where there is somebody at its destination, else what its
// sender is answered.
func (d *Device) back(packet []byte, there bool) {
	if there {
		d.Known.Add(1)
	} else {
		d.Nobody.Add(1)
		packet = nobody(packet)
	}
	if packet != nil {
		_, _ = d.f.Write(packet) // one packet lost: it is sent again
	}
}

// destination of an IP packet.
func destination(p []byte) (netip.Addr, bool) {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(p[16:20])), true
	case len(p) >= 40 && p[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(p[24:40])), true
	}
	return netip.Addr{}, false
}

// Numbers of ICMP.
const (
	icmp4, icmp6             = 1, 58
	unreachable4, hostCode4  = 3, 1
	unreachable6, routeCode6 = 1, 0
)

// nobody is the answer to a packet that there is no such address; nil to one that
// must not be answered (itself an ICMP error, a fragment but the first, or not from
// a single host).
func nobody(p []byte) []byte {
	if p[0]>>4 == 4 {
		return nobody4(p)
	}
	return nobody6(p)
}

func nobody4(p []byte) []byte {
	head := int(p[0]&15) * 4
	from := netip.AddrFrom4([4]byte(p[12:16]))
	if head < 20 || len(p) < head+8 || binary.BigEndian.Uint16(p[6:])&0x1fff != 0 || from.IsMulticast() ||
		from.IsUnspecified() {
		return nil
	}
	if p[9] == icmp4 && p[head] != 8 {
		return nil
	}
	quoted := p[:head+8]
	out := make([]byte, 28, 28+len(quoted))
	out[0], out[8], out[9] = 0x45, 64, icmp4
	binary.BigEndian.PutUint16(out[2:], uint16(28+len(quoted))) //nolint:gosec // below 128
	copy(out[12:16], p[16:20])
	copy(out[16:20], p[12:16])
	binary.BigEndian.PutUint16(out[10:], checksum(0, out[:20]))
	out[20], out[21] = unreachable4, hostCode4
	out = append(out, quoted...)
	binary.BigEndian.PutUint16(out[22:], checksum(0, out[20:]))
	return out
}

func nobody6(p []byte) []byte {
	from := netip.AddrFrom16([16]byte(p[8:24]))
	if from.IsMulticast() || from.IsUnspecified() {
		return nil
	}
	if p[6] == icmp6 && (len(p) < 48 || p[40] < 128) {
		return nil
	}
	quoted := p[:min(len(p), 1232-8)] // the answer fits into the least MTU
	out := make([]byte, 48, 48+len(quoted))
	out[0], out[6], out[7] = 0x60, icmp6, 64
	binary.BigEndian.PutUint16(out[4:], uint16(8+len(quoted))) //nolint:gosec // at most 1232
	copy(out[8:24], p[24:40])
	copy(out[24:40], p[8:24])
	out[40], out[41] = unreachable6, routeCode6
	out = append(out, quoted...)
	var pseudo uint32
	for i := 8; i < 40; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(out[i:]))
	}
	pseudo += uint32(len(out)-40) + icmp6 //nolint:gosec // at most 1232
	binary.BigEndian.PutUint16(out[42:], checksum(pseudo, out[40:]))
	return out
}

// checksum of the internet protocols over b, beginning with sum.
func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum) //nolint:gosec // folded to 16 bits
}
