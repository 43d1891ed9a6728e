package h2client

import "sync"

// buffers have what a frame has at most.
var buffers = sync.Pool{New: func() any { return new([defaultFrame]byte) }}

// smallPiece: what is no larger has not a whole buffer for itself.
const smallPiece = 2 << 10

// pieces are bytes that came and wait for their reader: full buffers but the last, so that
// nothing has to be moved when there are more. The zero value is empty.
type pieces struct {
	list [][]byte
	off  int // of the first was read
}

func (p *pieces) empty() bool { return len(p.list) == 0 }

// add copies b.
func (p *pieces) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(p.list); n > 0 {
		last := p.list[n-1]
		k := copy(last[len(last):cap(last)], b)
		p.list[n-1] = last[:len(last)+k]
		b = b[k:]
	} else if len(b) <= smallPiece {
		p.list = append(p.list, append([]byte(nil), b...))
		return
	}
	for len(b) > 0 {
		piece := buffers.Get().(*[defaultFrame]byte)[:0]
		k := copy(piece[:defaultFrame], b)
		p.list = append(p.list, piece[:k])
		b = b[k:]
	}
}

// read moves what there is into b.
func (p *pieces) read(b []byte) (n int) {
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
		if cap(first) == defaultFrame {
			buffers.Put((*[defaultFrame]byte)(first[:defaultFrame]))
		}
	}
	return n
}
