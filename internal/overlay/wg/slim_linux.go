package wg

import (
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"
)

// The device takes 64 KiB for every packet of a batch, from a pool without bound:
// with the usual batches of 128 it holds 25 MB at rest and 140 under load. What is
// around it here hands packets over in small batches, from buffers that fit
// packets, and lets no more of them be under way than it takes to fill a link.
const (
	// batch of packets that the device sees at a time.
	batch = 16
	// segments that an offload of the kernel puts into one read, at most.
	segments = conn.IdealBatchSize
	// slot is room for one packet; a link has rarely more than 1500.
	slot = 2048
	// jumbo is room for one read with offload.
	jumbo = 1 << 16
	// underWay is the most packets in one direction: 256 of 1420 bytes are 29 ms at
	// 100 Mbit/s and 3 ms at 1 Gbit/s.
	underWay = 256
	// stuck is how long nothing arrives at the other end before what is under way is
	// taken for lost: packets are dropped in the device without a word.
	stuck = 5 * time.Millisecond
)

// pace bounds the packets under way between a source and a sink.
type pace struct {
	mu    sync.Mutex // guards below
	n     int
	moved chan struct{} // closed when n falls while somebody waits
	timer *time.Timer
}

func newPace() *pace { return &pace{} }

// take counts n packets in, and waits while too many are under way.
func (p *pace) take(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.n >= underWay {
		before := p.n
		if p.moved == nil {
			p.moved = make(chan struct{})
		}
		moved := p.moved
		if p.timer == nil {
			p.timer = time.NewTimer(stuck)
		} else {
			p.timer.Reset(stuck)
		}
		timer := p.timer
		p.timer = nil // another source may wait meanwhile
		p.mu.Unlock()
		select {
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
		p.mu.Lock()
		p.timer = timer
		if p.n >= before {
			p.n = 0
		}
	}
	p.n += n
}

// give counts n packets out.
func (p *pace) give(n int) {
	p.mu.Lock()
	p.n = max(0, p.n-n)
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
	p.mu.Unlock()
}

// spill holds the packets of one read until they are handed over.
type spill struct {
	bufs  [][]byte
	sizes []int
	eps   []conn.Endpoint
	next  int
	have  int
}

// newSpill has room for one read whose last big buffers are filled by the kernel
// and then divided among all.
func newSpill(big int, last bool) *spill {
	s := &spill{bufs: make([][]byte, segments), sizes: make([]int, segments), eps: make([]conn.Endpoint, segments)}
	small := make([]byte, segments*slot)
	for i := range s.bufs {
		s.bufs[i] = small[i*slot : (i+1)*slot : (i+1)*slot]
	}
	for i := range big {
		at := i
		if last {
			at = segments - 1 - i
		}
		s.bufs[at] = make([]byte, jumbo)
	}
	return s
}

// hand fills bufs from what is left; what does not fit its buffer is dropped.
func (s *spill) hand(bufs [][]byte, sizes []int, eps []conn.Endpoint, offset int) int {
	n := 0
	for n < len(bufs) && n < batch && s.next < s.have {
		size := s.sizes[s.next]
		if size > 0 && offset+size <= len(bufs[n]) {
			copy(bufs[n][offset:], s.bufs[s.next][:size])
			sizes[n] = size
			if eps != nil {
				eps[n] = s.eps[s.next]
			}
			n++
		}
		s.next++
	}
	return n
}

// slimBind is a Bind in small batches.
type slimBind struct {
	conn.Bind
	out, in *pace
}

func newSlimBind(b conn.Bind, out, in *pace) *slimBind { return &slimBind{b, out, in} }

// BatchSize implements conn.Bind.
func (b *slimBind) BatchSize() int { return batch }

// Open implements conn.Bind.
func (b *slimBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	fns, actual, err := b.Bind.Open(port)
	for i, f := range fns {
		fns[i] = b.slim(f)
	}
	return fns, actual, err
}

// slim makes the buffers at the first read: of two families one is often unused.
func (b *slimBind) slim(receive conn.ReceiveFunc) conn.ReceiveFunc {
	s := newSpill(segments/64, true)
	return func(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		for {
			if n := s.hand(bufs, sizes, eps, 0); n > 0 {
				b.in.take(n)
				return n, nil
			}
			n, err := receive(s.bufs, s.sizes, s.eps)
			if err != nil {
				return 0, err
			}
			s.next, s.have = 0, n
		}
	}
}

// Send implements conn.Bind.
func (b *slimBind) Send(bufs [][]byte, ep conn.Endpoint) error {
	defer b.out.give(len(bufs))
	return b.Bind.Send(bufs, ep)
}

// slimTUN is a TUN in small batches.
type slimTUN struct {
	tun.Device
	out, in *pace
	mu      sync.Mutex // guards s
	s       *spill
}

func newSlimTUN(t tun.Device, out, in *pace) *slimTUN {
	return &slimTUN{Device: t, out: out, in: in, s: newSpill(0, false)}
}

// BatchSize implements tun.Device.
func (t *slimTUN) BatchSize() int { return batch }

// Read implements tun.Device.
func (t *slimTUN) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		if n := t.s.hand(bufs, sizes, nil, offset); n > 0 {
			t.out.take(n)
			return n, nil
		}
		n, err := t.Device.Read(t.s.bufs, t.s.sizes, 0)
		t.s.next, t.s.have = 0, n
		if err != nil && n == 0 {
			return 0, err
		}
	}
}

// Write implements tun.Device.
func (t *slimTUN) Write(bufs [][]byte, offset int) (int, error) {
	defer t.in.give(len(bufs))
	return t.Device.Write(bufs, offset)
}
