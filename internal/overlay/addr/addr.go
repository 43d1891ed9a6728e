package addr

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/verge-edge/verge/internal/wire"
)

// Bits of an IPv6 address: the root's prefix, then worker, application, instance.
const (
	rootBits   = 48
	workerBits = rootBits + 32
	// MaxApp and MaxInstance are the greatest numbers that have room in an address.
	MaxApp      = 1<<24 - 1
	MaxInstance = 1<<24 - 1
)

// Space is what a lease gives a worker.
type Space struct {
	// Root is the prefix of all addresses below the root, Worker the part of this
	// worker, Services the place of services. All are IPv6.
	Root, Worker, Services netip.Prefix
	// Host6 is the worker's own address, at which instances reach its name server.
	Host6 netip.Addr
	// Worker4 is the worker's /24 and Host4 its own address in it, Pool where all
	// workers' are from and Services4 where services get theirs. All zero where the
	// worker has no IPv4 here.
	Worker4, Pool, Services4 netip.Prefix
	Host4                    netip.Addr
}

// Of makes the space of a lease.
func Of(l *wire.Lease) (Space, error) {
	if !l.Prefix.IsValid() || !l.Prefix.Addr().Is6() || l.Prefix.Bits() != rootBits {
		return Space{}, fmt.Errorf("lease: prefix %s is no IPv6 /%d", l.Prefix, rootBits)
	}
	if l.Number == 0 {
		return Space{}, errors.New("lease: worker number 0 is the place of services")
	}
	s := Space{Root: l.Prefix.Masked(), Worker: worker(l.Prefix, l.Number), Services: worker(l.Prefix, 0)}
	s.Host6 = s.Instance(0, 1)
	if !l.IPv4.IsValid() {
		return s, nil
	}
	if !l.IPv4.Addr().Is4() || l.IPv4.Bits() < 8 || l.IPv4.Bits() > 30 {
		return Space{}, fmt.Errorf("lease: %s is no IPv4 network for instances", l.IPv4)
	}
	if !l.Services.IsValid() || !l.Services.Addr().Is4() || l.Services.Bits() > 30 {
		return Space{}, fmt.Errorf("lease: %s is no IPv4 network for services", l.Services)
	}
	if l.IPv4.Overlaps(l.Services) {
		return Space{}, fmt.Errorf("lease: the networks of instances, %s, and of services, %s, overlap", l.IPv4,
			l.Services)
	}
	s.Worker4, s.Services4, s.Pool = l.IPv4.Masked(), l.Services.Masked(), l.Pool.Masked()
	if !s.Pool.IsValid() {
		s.Pool = s.Worker4
	}
	s.Host4 = s.Worker4.Addr().Next()
	return s, nil
}

// WithoutIPv4 is the space of a worker that can't use its IPv4 addresses.
func (s Space) WithoutIPv4() Space {
	s.Worker4, s.Pool, s.Services4, s.Host4 = netip.Prefix{}, netip.Prefix{}, netip.Prefix{}, netip.Addr{}
	return s
}

func worker(prefix netip.Prefix, number uint32) netip.Prefix {
	b := prefix.Masked().Addr().As16()
	binary.BigEndian.PutUint32(b[6:], number)
	return netip.PrefixFrom(netip.AddrFrom16(b), workerBits)
}

// Instance is the address of an instance of this worker. app and number are at
// most MaxApp and MaxInstance.
func (s Space) Instance(app, number uint32) netip.Addr {
	b := s.Worker.Addr().As16()
	put24(b[10:], app)
	put24(b[13:], number)
	return netip.AddrFrom16(b)
}

// Instance4 is the IPv4 address with a number in the worker's network; it is not
// valid where there is none.
func (s Space) Instance4(number uint32) netip.Addr {
	if !s.Worker4.IsValid() || number > s.Last4() {
		return netip.Addr{}
	}
	return add4(s.Worker4.Addr(), number)
}

// Last4 is the greatest number that an instance can have in Worker4; the first is
// First4.
func (s Space) Last4() uint32 { return lastHost(s.Worker4) }

// First4 is the first number of an instance in Worker4: 0 is the network, 1 the
// worker itself.
const First4 = 2

// Service is the address of a service by one of its policies.
func (s Space) Service(app uint32, service, policy string) netip.Addr {
	h := sha256.New()
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], app)
	_, _ = h.Write(n[:]) // a hash never fails
	_, _ = h.Write([]byte(service + "\x00" + policy))
	b := s.Services.Addr().As16()
	copy(b[10:], h.Sum(nil))
	// The first one is nobody's, as in any network.
	if b[10] == 0 && b[11] == 0 && b[12] == 0 && b[13] == 0 && b[14] == 0 && b[15] == 0 {
		b[15] = 1
	}
	return netip.AddrFrom16(b)
}

// App is the number of the application in the address of an instance.
func App(a netip.Addr) uint32 {
	b := a.As16()
	return uint32(b[10])<<16 | uint32(b[11])<<8 | uint32(b[12])
}

func put24(b []byte, n uint32) { b[0], b[1], b[2] = byte(n>>16), byte(n>>8), byte(n) }

func add4(a netip.Addr, n uint32) netip.Addr {
	b := a.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

func lastHost(p netip.Prefix) uint32 {
	if !p.IsValid() || !p.Addr().Is4() {
		return 0
	}
	return uint32(1)<<(32-p.Bits()) - 2 // the very last is the broadcast address
}
