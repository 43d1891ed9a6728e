package addr

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/verge-edge/verge/internal/atomicfile"
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
	path    string
	network netip.Prefix
	records []entry // in the order in which they were made
	by      map[Key]netip.Addr
	taken   map[netip.Addr]Key
	dirty   bool
}

type entry struct {
	Key
	Addr netip.Addr `json:"addr"`
}

type bookFile struct {
	V         int          `json:"v"`
	Network   netip.Prefix `json:"network"`
	Addresses []entry      `json:"addresses"`
}

// OpenBook reads the book at path ("" is one without a file) for addresses of
// network. One that is not there, or for another network, is empty. One that can't
// be understood is set aside and the error says so, beside a book that can be used:
// addresses follow from names, so nearly all of them come out the same again.
func OpenBook(path string, network netip.Prefix) (*Book, error) {
	b := &Book{path: path, network: network.Masked(), by: map[Key]netip.Addr{}, taken: map[netip.Addr]Key{}}
	if path == "" {
		return b, nil
	}
	data, err := atomicfile.ReadBounded(path, maxBook)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var f bookFile
	if err == nil {
		if err = json.Unmarshal(data, &f); err == nil && f.V != 1 {
			err = fmt.Errorf("version %d is not understood", f.V)
		}
	}
	if err == nil && f.Network == b.network {
		err = b.fill(f.Addresses)
	}
	if err == nil {
		return b, nil
	}
	aside := path + ".damaged"
	err = fmt.Errorf("service addresses in %s cannot be read, set aside as %s: %w", path, aside, err)
	if rerr := os.Rename(path, aside); rerr != nil {
		err = errors.Join(err, rerr)
	}
	return &Book{path: path, network: b.network, by: map[Key]netip.Addr{}, taken: map[netip.Addr]Key{}}, err
}

func (b *Book) fill(records []entry) error {
	for _, r := range records {
		if !b.network.Contains(r.Addr) {
			return fmt.Errorf("%s has the address %s, which is not in %s", r.Key, r.Addr, b.network)
		}
		if other, twice := b.taken[r.Addr]; twice {
			return fmt.Errorf("%s and %s have the same address %s", other, r.Key, r.Addr)
		}
		b.put(r.Key, r.Addr)
	}
	b.dirty = false
	return nil
}

func (b *Book) put(k Key, a netip.Addr) {
	b.records = append(b.records, entry{k, a})
	b.by[k], b.taken[a] = a, k
	b.dirty = true
}

func (b *Book) drop(k Key) {
	b.records = slices.DeleteFunc(b.records, func(r entry) bool { return r.Key == k })
	delete(b.taken, b.by[k])
	delete(b.by, k)
	b.dirty = true
}

// Take gives the address of a service: fixed, where that is valid, else the one it
// has or the one that its name points to, or the next free one. When none is left,
// the oldest that inUse does not claim is forgotten.
func (b *Book) Take(k Key, fixed netip.Addr, inUse func(Key) bool) (netip.Addr, error) {
	had, has := b.by[k]
	if fixed.IsValid() {
		return fixed, b.fix(k, fixed, had)
	}
	if has {
		return had, nil
	}
	count := lastHost(b.network)
	if uint32(len(b.records)) >= count {
		i := slices.IndexFunc(b.records, func(r entry) bool { return !inUse(r.Key) })
		if i < 0 {
			return netip.Addr{}, fmt.Errorf("all %d addresses of %s are in use by services: delete applications that this worker no longer needs, or give the root a larger network for services", count, b.network)
		}
		b.drop(b.records[i].Key)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.App + "\x00" + k.Service + "\x00" + k.Policy)) // a hash never fails
	for i := range count {
		// 0 is the network itself. In 64 bits: the sum may be beyond 32.
		a := add4(b.network.Addr(), uint32((uint64(h.Sum32())+uint64(i))%uint64(count))+1)
		if _, taken := b.taken[a]; !taken {
			b.put(k, a)
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
		return fmt.Errorf("address %s of service %s is not one for services, which are in %s: choose another one, or leave it out", fixed, k, b.network)
	}
	if other, taken := b.taken[fixed]; taken {
		return fmt.Errorf("address %s of service %s is that of %s on this worker: choose another one, or leave it out", fixed, k, other)
	}
	if had.IsValid() {
		b.drop(k)
	}
	b.put(k, fixed)
	return nil
}

// At is the service that has an address.
func (b *Book) At(a netip.Addr) (Key, bool) {
	k, ok := b.taken[a]
	return k, ok
}

// Save writes the book durably if it changed.
func (b *Book) Save() error {
	if !b.dirty || b.path == "" {
		return nil
	}
	data, err := json.Marshal(bookFile{V: 1, Network: b.network, Addresses: b.records})
	if err != nil {
		return fmt.Errorf("encode service addresses: %w", err)
	}
	if err := atomicfile.Write(b.path, data, 0o600); err != nil {
		return fmt.Errorf("store service addresses: %w", err)
	}
	b.dirty = false
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
