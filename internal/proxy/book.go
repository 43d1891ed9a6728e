package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Range of the ports of loopback entries. It lies below the ports that Linux
// gives out by itself (32768 and up), so that no outgoing connection takes one.
const (
	entryPortFirst = 20000
	entryPortCount = 5000

	// maxBook bounds the state file; 5,000 records of names of 63 bytes stay
	// far below.
	maxBook = 4 << 20
)

// entryKey names a port of a service.
type entryKey struct{ app, service, port string }

func (k entryKey) String() string { return k.app + "." + k.service + "/" + k.port }

// book is the memory of which port number belongs to which entry. It has one
// owner and no lock.
type book struct {
	path    string
	first   int
	count   int
	records []record // in the order in which they were made
	numbers map[entryKey]int
	taken   map[int]entryKey
	dirty   bool // differs from the file
}

// record is one line of the state file.
type record struct {
	App     string `json:"app"`
	Service string `json:"service"`
	Port    string `json:"port"`
	Number  int    `json:"number"`
}

func (r record) key() entryKey { return entryKey{r.App, r.Service, r.Port} }

type bookFile struct {
	V     int      `json:"v"`
	Ports []record `json:"ports"`
}

func newBook(path string) *book {
	return &book{
		path: path, first: entryPortFirst, count: entryPortCount,
		numbers: map[entryKey]int{}, taken: map[int]entryKey{},
	}
}

// loadBook reads the book at path. One that is not there is empty. One that
// cannot be understood is set aside and the error says so, with a book that can
// be used: numbers follow from names, so nearly all of them come out the same
// again, and a worker without anybody near must not stay down over this.
func loadBook(path string) (*book, error) {
	b := newBook(path)
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
	if err == nil {
		err = b.fill(f.Ports)
	}
	if err == nil {
		return b, nil
	}
	aside := path + ".damaged"
	err = fmt.Errorf("loopback ports in %s cannot be read, set aside as %s: %w", path, aside, err)
	if rerr := os.Rename(path, aside); rerr != nil {
		err = errors.Join(err, rerr)
	}
	return newBook(path), err
}

func (b *book) fill(records []record) error {
	for _, r := range records {
		if r.Number < 1 || r.Number > 65535 {
			return fmt.Errorf("%s has port number %d", r.key(), r.Number)
		}
		if other, twice := b.taken[r.Number]; twice {
			return fmt.Errorf("%s and %s have the same port %d", other, r.key(), r.Number)
		}
		b.put(r.key(), r.Number)
	}
	b.dirty = false
	return nil
}

func (b *book) put(k entryKey, number int) {
	b.records = append(b.records, record{k.app, k.service, k.port, number})
	b.numbers[k] = number
	b.taken[number] = k
	b.dirty = true
}

func (b *book) drop(k entryKey) {
	b.records = slices.DeleteFunc(b.records, func(r record) bool { return r.key() == k })
	delete(b.taken, b.numbers[k])
	delete(b.numbers, k)
	b.dirty = true
}

// allocate finds the number for a new entry: where its name points to, or the
// next one that is neither in the book nor refused by try. If the book is full,
// the oldest entry that is not in use is forgotten.
func (b *book) allocate(k entryKey, inUse func(entryKey) bool, try func(number int) error) error {
	if len(b.records) >= b.count {
		i := slices.IndexFunc(b.records, func(r record) bool { return !inUse(r.key()) })
		if i < 0 {
			return fmt.Errorf("all %d loopback ports from %d on are in use: delete applications that this worker no longer needs", b.count, b.first)
		}
		b.drop(b.records[i].key())
	}
	start := int(seedOf(k.app, k.service, k.port) % uint64(b.count))
	var last error
	for i := range b.count {
		n := b.first + (start+i)%b.count
		if _, ours := b.taken[n]; ours {
			continue
		}
		if last = try(n); last == nil {
			b.put(k, n)
			return nil
		}
		if !errors.Is(last, syscall.EADDRINUSE) {
			return fmt.Errorf("listen for %s: %w", k, last)
		}
	}
	return fmt.Errorf("no free loopback port from %d to %d: %w", b.first, b.first+b.count-1, last)
}

// save writes the book durably if it changed.
func (b *book) save() error {
	if !b.dirty || b.path == "" {
		return nil
	}
	data, err := json.Marshal(bookFile{V: 1, Ports: b.records})
	if err != nil {
		return fmt.Errorf("encode loopback ports: %w", err)
	}
	if err := atomicfile.Write(b.path, data, 0o600); err != nil {
		return fmt.Errorf("store loopback ports: %w", err)
	}
	b.dirty = false
	return nil
}
