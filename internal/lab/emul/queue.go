package emul

// flight is a packet that is on its way.
type flight struct {
	due  int64
	seq  uint64 // of those due at the same time the first that came is first
	pipe *pipe
	to   int32 // host
	slot int32 // of the buffer that holds it
	size int32
}

// queue has flights by the time they are due: a heap without an allocation for
// each packet.
type queue []flight

func (q queue) less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].seq < q[j].seq
}

func (q *queue) push(f flight) {
	*q = append(*q, f)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop takes the first one; there must be one.
func (q *queue) pop() flight {
	h := *q
	first, end := h[0], len(h)-1
	h[0], h[end] = h[end], flight{}
	h = h[:end]
	*q = h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < end; child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// slotSize holds a packet of a device with an MTU of 1500.
const (
	slotSize  = 2048
	chunk     = 256     // slots that are made at a time
	maxPacket = 1 << 17 // slots at most: 256 MB
)

// slots are the buffers of packets.
type slots struct {
	chunks [][]byte
	free   []int32
}

// take returns a free slot; false if there is none any more.
func (s *slots) take() (int32, bool) {
	if len(s.free) == 0 {
		n := len(s.chunks) * chunk
		if n >= maxPacket {
			return 0, false
		}
		s.chunks = append(s.chunks, make([]byte, chunk*slotSize))
		for i := range chunk {
			s.free = append(s.free, int32(n+chunk-1-i))
		}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return i, true
}

func (s *slots) give(i int32) { s.free = append(s.free, i) }

func (s *slots) bytes(i int32) []byte {
	at := int(i%chunk) * slotSize
	return s.chunks[i/chunk][at : at+slotSize]
}
