package rules

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// ObjectsPort is what instances may reach at their worker's own addresses, beside its
// name servers: the object store.
const ObjectsPort = 8479

// Model is what should be true.
type Model struct {
	Space    Space
	Devices  Devices
	Links    []Link
	Services []Service
	// Apps4 are the IPv4 addresses of instances, here or elsewhere, of whose
	// application is known; those of Links need not be among them.
	Apps4 map[netip.Addr]uint32
	// Exported may be reached by instances of all applications.
	Exported []Target
}

// Space are the networks of a worker; the IPv4 ones are zero where it has none.
type Space struct {
	Root, Worker, Services   netip.Prefix
	Host6                    netip.Addr
	Pool, Worker4, Services4 netip.Prefix
	Host4                    netip.Addr
}

// Devices by name. All of the worker's begin with Own.
type Devices struct {
	// Own is what all names begin with, Links what those of instances do.
	Own, Links string
	// Services is where packets for unknown services go, Peers where those for other
	// workers do.
	Services, Peers string
}

// Link is an instance here.
type Link struct {
	Device       string
	App          uint32
	Addr6, Addr4 netip.Addr
}

// Service has an address of each family; one of them may be invalid.
type Service struct {
	// Name is unique in a Model.
	Name         string
	Addr6, Addr4 netip.Addr
	Ports        []Port
}

// Port of a service.
type Port struct {
	// Proto is "tcp" or "udp".
	Proto string
	Port  uint16
	// Rotate takes the backends in turn instead of by lot.
	Rotate bool
	// To6 is where connections to Addr6 go, To4 those to Addr4.
	To6, To4 []Backend
}

// Backend is an endpoint and its weight against others, 0 to 1<<16.
type Backend struct {
	To     netip.AddrPort
	Weight uint32
}

// Target is a port of an instance.
type Target struct {
	Addr  netip.Addr
	Proto string
	Port  uint16
}

// random is the modulus of a choice by lot.
const random = 1 << 16

// share is a part of the numbers that are drawn.
type share struct {
	first, end uint32 // without end
	to         netip.AddrPort
}

// shares divides the numbers below modulus among backends by their weights, each
// within one number of what is exactly its part. Those without weight get none; if
// all have none, all have the same.
func shares(list []Backend, rotate bool) (modulus uint32, out []share) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Backend) int { return a.To.Compare(b.To) })
	var total uint64
	for _, b := range list {
		total += uint64(b.Weight)
	}
	equal := total == 0
	if equal {
		total = uint64(len(list))
	}
	modulus = random
	if rotate {
		// In turn, each as often as its weight says, in lowest terms.
		d := uint64(1)
		if !equal {
			d = 0
			for _, b := range list {
				d = gcd(d, uint64(b.Weight))
			}
		}
		if turns := total / d; turns <= random {
			modulus = uint32(turns) //nolint:gosec // just compared
		}
	}
	var sum uint64
	first := uint32(0)
	for _, b := range list {
		w := uint64(b.Weight)
		if equal {
			w = 1
		}
		sum += w
		end := uint32((sum*uint64(modulus) + total/2) / total) //nolint:gosec // at most modulus
		if end > first {
			out = append(out, share{first, end, b.To})
		}
		first = end
	}
	return modulus, out
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// chainOf names the chains of a service, whose own name may be longer than the kernel
// takes.
func chainOf(service string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(service)) // a hash never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// check finds ports that no rule can be made for.
func (s *Service) check() error {
	for _, p := range s.Ports {
		if p.Proto != "tcp" && p.Proto != "udp" {
			return fmt.Errorf("service %s: protocol %q", s.Name, p.Proto)
		}
	}
	return nil
}

// same says whether two services need the same chains.
func (s *Service) same(o *Service) bool {
	return s.Name == o.Name && s.Addr6 == o.Addr6 && s.Addr4 == o.Addr4 &&
		slices.EqualFunc(s.Ports, o.Ports, func(a, b Port) bool {
			return a.Proto == b.Proto && a.Port == b.Port && a.Rotate == b.Rotate && slices.Equal(a.To6, b.To6) &&
				slices.Equal(a.To4, b.To4)
		})
}
