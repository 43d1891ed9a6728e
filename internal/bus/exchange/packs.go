package exchange

import (
	"bytes"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
)

// maxPacks bounds the packed values that are kept for the next peer.
const maxPacks = 8

// packs keeps what was packed last: a route that thousands of workers fetch is packed
// once. Its zero value is ready to use.
type packs struct {
	mu   sync.Mutex
	last []pack // the newest first
}

type pack struct{ value, packed []byte }

// of returns the value of an entry packed. A nil *packs keeps nothing.
func (p *packs) of(e bus.Entry) ([]byte, error) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock() // also while it is packed: others want the same
		for _, x := range p.last {
			// The value of an entry is the store's own, and is never written to: it is
			// nearly always the same memory, and then this is no comparison.
			if len(x.value) == len(e.Value) && (&x.value[0] == &e.Value[0] || bytes.Equal(x.value, e.Value)) {
				return x.packed, nil
			}
		}
	}
	value, err := packed(e.Value)
	if err != nil {
		return nil, err
	}
	if p != nil {
		p.last = append([]pack{{e.Value, value}}, p.last[:min(len(p.last), maxPacks-1)]...)
	}
	return value, nil
}
