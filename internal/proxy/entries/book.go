package entries

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"syscall"

	"github.com/verge-edge/verge/internal/atomicfile/book"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

// Range of the ports of loopback entries. It lies below the ports that Linux
// gives out by itself (32768 and up), so that no outgoing connection takes one.
const (
	entryPortFirst = 20000
	entryPortCount = 5000

	// maxPorts bounds the state file; 5,000 records of names of 63 bytes stay
	// far below.
	maxPorts = 4 << 20
)

// Key names a port of a service.
type Key struct{ App, Service, Port string }

// String is "application.service/port".
func (k Key) String() string { return k.App + "." + k.Service + "/" + k.Port }

// Ports is the memory of which port number belongs to which entry.
type Ports struct {
	*book.Book[record, Key, int]
	first, count int
}

// record is one line of the state file.
type record struct {
	App     string `json:"app"`
	Service string `json:"service"`
	Port    string `json:"port"`
	Number  int    `json:"number"`
}

func (r record) key() Key { return Key{r.App, r.Service, r.Port} }

var portsKind = &statefile.Kind{What: "loopback ports", Max: maxPorts, Version: 1}

type portsFile struct {
	V     int      `json:"v"`
	Ports []record `json:"ports"`
}

// LoadPorts opens the book at path; see book.Open.
func LoadPorts(path string) (*Ports, error) {
	b, err := book.Open(path, book.Form[record, Key, int]{
		Kind:   portsKind,
		Of:     func(r record) (Key, int) { return r.key(), r.Number },
		Decode: decodePorts,
		Encode: func(records []record) ([]byte, error) {
			return json.Marshal(portsFile{V: portsKind.Version, Ports: records})
		},
	})
	return &Ports{Book: b, first: entryPortFirst, count: entryPortCount}, err
}

func decodePorts(data []byte) ([]record, error) {
	var f portsFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	for _, r := range f.Ports {
		if r.Number < 1 || r.Number > 65535 {
			return nil, fmt.Errorf("%s has port number %d", r.key(), r.Number)
		}
	}
	return f.Ports, nil
}

// allocate finds the number for a new entry: where its name points to, or the
// next one that is neither in the book nor refused by try. If the book is full,
// the oldest entry that is not in use is forgotten.
func (b *Ports) allocate(k Key, inUse func(Key) bool, try func(number int) error) error {
	if len(b.Records()) >= b.count && !b.DropOldest(inUse) {
		return fmt.Errorf("all %d loopback ports from %d on are in use: delete applications that this worker no "+
			"longer needs", b.count, b.first)
	}
	start := int(hashOf(k) % uint64(b.count))
	var last error
	for i := range b.count {
		n := b.first + (start+i)%b.count
		if _, ours := b.At(n); ours {
			continue
		}
		if last = try(n); last == nil {
			b.Put(record{k.App, k.Service, k.Port, n})
			return nil
		}
		if !errors.Is(last, syscall.EADDRINUSE) {
			return fmt.Errorf("listen for %s: %w", k, last)
		}
	}
	return fmt.Errorf("no free loopback port from %d to %d: %w", b.first, b.first+b.count-1, last)
}

// hashOf a key is the same after a restart.
func hashOf(k Key) uint64 {
	h := fnv.New64a()
	for _, part := range []string{k.App, k.Service, k.Port} {
		_, _ = h.Write(append([]byte(part), 0)) // a hash never fails
	}
	return h.Sum64()
}
