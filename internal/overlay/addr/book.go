package addr

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/verge-edge/verge/internal/atomicfile/book"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

// maxBook bounds the file of a Book; a full /16 of long names stays below.
const maxBook = 32 << 20

// Key names a service by one of its policies.
type Key struct {
	App     string `json:"app"`
	Service string `json:"service"`
	Policy  string `json:"policy"`
}

// String is how a Key stands in messages: policy.service.application.
func (k Key) String() string { return k.Policy + "." + k.Service + "." + k.App }

// Book remembers which IPv4 address of this worker belongs to which service. It
// has one owner and no lock. Save makes durable what changed.
type Book struct {
	*book.Book[entry, Key, netip.Addr]
	network netip.Prefix
}

type entry struct {
	Key
	Addr netip.Addr `json:"addr"`
}

var bookKind = &statefile.Kind{What: "service addresses", Max: maxBook, Version: 1}

type bookFile struct {
	V         int          `json:"v"`
	Network   netip.Prefix `json:"network"`
	Addresses []entry      `json:"addresses"`
}

// OpenBook reads the book at path ("" is one without a file) for addresses of
// network. One that is not there, or for another network, is empty. One that can't
// be understood is set aside, and the error says so: see book.Open.
func OpenBook(path string, network netip.Prefix) (*Book, error) {
	network = network.Masked()
	b, err := book.Open(path, book.Form[entry, Key, netip.Addr]{
		Kind:   bookKind,
		Of:     func(e entry) (Key, netip.Addr) { return e.Key, e.Addr },
		Decode: func(data []byte) ([]entry, error) { return decode(data, network) },
		Encode: func(records []entry) ([]byte, error) {
			return json.Marshal(bookFile{V: bookKind.Version, Network: network, Addresses: records})
		},
	})
	return &Book{b, network}, err
}

func decode(data []byte, network netip.Prefix) ([]entry, error) {
	var f bookFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Network != network {
		return nil, nil
	}
	for _, r := range f.Addresses {
		if !network.Contains(r.Addr) {
			return nil, fmt.Errorf("%s has the address %s, which is not in %s", r.Key, r.Addr, network)
		}
	}
	return f.Addresses, nil
}

// Take gives the address of a service: fixed, where that is valid, else the one it
// has or the one that its name points to, or the next free one. When none is left,
// the oldest that inUse does not claim is forgotten.
func (b *Book) Take(k Key, fixed netip.Addr, inUse func(Key) bool) (netip.Addr, error) {
	had, has := b.Get(k)
	if fixed.IsValid() {
		return fixed, b.fix(k, fixed, had)
	}
	if has {
		return had, nil
	}
	count := lastHost(b.network)
	if uint32(len(b.Records())) >= count && !b.DropOldest(inUse) {
		return netip.Addr{}, fmt.Errorf("all %d addresses of %s are in use by services: delete applications that "+
			"this worker no longer needs, or give the root a larger network for services", count, b.network)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.App + "\x00" + k.Service + "\x00" + k.Policy)) // a hash never fails
	for i := range count {
		// 0 is the network itself. In 64 bits: the sum may be beyond 32.
		a := add4(b.network.Addr(), uint32((uint64(h.Sum32())+uint64(i))%uint64(count))+1)
		if _, taken := b.At(a); !taken {
			b.Put(entry{k, a})
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %s is free", b.network)
}

func (b *Book) fix(k Key, fixed, had netip.Addr) error {
	if fixed == had {
		return nil
	}
	last := add4(b.network.Addr(), lastHost(b.network))
	if !b.network.Contains(fixed) || fixed == b.network.Addr() || fixed.Compare(last) > 0 {
		return fmt.Errorf("address %s of service %s is not one for services, which are in %s: choose another one, or "+
			"leave it out", fixed, k, b.network)
	}
	if other, taken := b.At(fixed); taken {
		return fmt.Errorf("address %s of service %s is that of %s on this worker: choose another one, or leave it out",
			fixed, k, other)
	}
	if had.IsValid() {
		b.Drop(k)
	}
	b.Put(entry{k, fixed})
	return nil
}

// index4 is the place of an address in its network.
func index4(p netip.Prefix, a netip.Addr) uint32 {
	x, y := p.Addr().As4(), a.As4()
	return binary.BigEndian.Uint32(y[:]) - binary.BigEndian.Uint32(x[:])
}

// Number4 is the number of an IPv4 address of an instance; 0 if it is none.
func (s Space) Number4(a netip.Addr) uint32 {
	if !a.Is4() || !s.Worker4.IsValid() || !s.Worker4.Contains(a) {
		return 0
	}
	return index4(s.Worker4, a)
}
