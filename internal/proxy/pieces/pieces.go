// Package pieces has the bytes of a body over HTTP/2 that came and wait for their reader.
package pieces

import "sync"

// Size of a piece: what a frame has at most.
const Size = 16 << 10

// Buffers have Size bytes each.
var Buffers = sync.Pool{New: func() any { return new([Size]byte) }}

// small: what is no larger has not a whole buffer for itself.
const small = 2 << 10

// Pieces are bytes that wait: full buffers but the last, so that nothing has to be moved when
// there are more. The zero value is empty. It is not safe for concurrent use.
type Pieces struct {
	list [][]byte
	off  int // of the first was read
}

// Empty says whether nothing waits.
func (p *Pieces) Empty() bool { return len(p.list) == 0 }

// Len is in how many pieces they are.
func (p *Pieces) Len() int { return len(p.list) }

// Add copies b.
func (p *Pieces) Add(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(p.list); n > 0 {
		last := p.list[n-1]
		k := copy(last[len(last):cap(last)], b)
		p.list[n-1] = last[:len(last)+k]
		b = b[k:]
	} else if len(b) <= small {
		p.list = append(p.list, append([]byte(nil), b...))
		return
	}
	for len(b) > 0 {
		piece := Buffers.Get().(*[Size]byte)[:0]
		k := copy(piece[:Size], b)
		p.list = append(p.list, piece[:k])
		b = b[k:]
	}
}

// Read moves what there is into b.
func (p *Pieces) Read(b []byte) (n int) {
	for len(p.list) > 0 {
		first := p.list[0]
		k := copy(b[n:], first[p.off:])
		n += k
		if p.off += k; p.off < len(first) {
			return n
		}
		p.off = 0
		p.list[0] = nil
		if p.list = p.list[1:]; len(p.list) == 0 {
			p.list = nil
		}
		if cap(first) == Size {
			Buffers.Put((*[Size]byte)(first[:Size]))
		}
	}
	return n
}
