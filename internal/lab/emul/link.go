package emul

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Link is what one direction of a link does to packets. The zero value passes
// everything at once.
type Link struct {
	// Latency from one end to the other, 0 to a minute.
	Latency time.Duration `json:"latency,omitempty"`
	// Jitter: each packet's latency is drawn evenly from Latency ± Jitter.
	Jitter time.Duration `json:"jitter,omitempty"`
	// Reorder lets packets overtake each other as their jitter has it. Otherwise a
	// packet is never earlier than the one before.
	Reorder bool `json:"reorder,omitempty"`
	// Loss is the share of packets that is lost, 0 to 1.
	Loss float64 `json:"loss,omitempty"`
	// Rate in bits per second; 0 is without limit.
	Rate int64 `json:"rate,omitempty"`
	// Buffer is how many bytes may wait for the Rate; 0 is what passes in 100 ms,
	// but at least 32 KiB.
	Buffer int64 `json:"buffer,omitempty"`
	// Cut: nothing passes.
	Cut bool `json:"cut,omitempty"`
}

// Set is a direction of a link, by the numbers of ports, and what it is to be.
type Set struct {
	From int  `json:"from"`
	To   int  `json:"to"`
	Link Link `json:"link"`
}

// MaxPorts is how many hosts a switch connects.
const MaxPorts = 1000

const (
	maxLatency = time.Minute
	maxRate    = 100e9
	maxBuffer  = 1 << 30
)

// Validate says what is out of range.
func (l Link) Validate() error {
	switch {
	case l.Latency < 0 || l.Latency > maxLatency:
		return fmt.Errorf("latency %v: it must be 0 to %v", l.Latency, maxLatency)
	case l.Jitter < 0 || l.Jitter > maxLatency:
		return fmt.Errorf("jitter %v: it must be 0 to %v", l.Jitter, maxLatency)
	case !(l.Loss >= 0 && l.Loss <= 1):
		return fmt.Errorf("loss %g: it must be 0 to 1", l.Loss)
	case l.Rate < 0 || l.Rate > maxRate:
		return fmt.Errorf("rate %d bit/s: it must be 0 (no limit) to 100 Gbit/s", l.Rate)
	case l.Buffer < 0 || l.Buffer > maxBuffer:
		return fmt.Errorf("buffer %d bytes: it must be 0 (by the rate) to 1 GiB", l.Buffer)
	}
	return nil
}

// line is a queue in front of a rate.
type line struct {
	rate   int64 // bits per second; 0 is without limit
	buffer int64 // bytes that may wait; 0: see Link.Buffer
	busy   int64 // until when it sends what it has
}

// room is the buffer with its default.
func (l *line) room() int64 {
	if l.buffer > 0 {
		return l.buffer
	}
	return max(l.rate/8/10, 32<<10)
}

// pass says when a packet that comes at now has left; false if there is no room for
// it.
func (l *line) pass(now int64, size int) (leaves int64, ok bool) {
	if l.rate == 0 {
		return now, true
	}
	begin := max(now, l.busy)
	// What waits is what the rate passes until begin.
	if waiting := float64(begin-now) * float64(l.rate) / 8e9; waiting+float64(size) > float64(l.room()) {
		return 0, false
	}
	l.busy = begin + int64(float64(size)*8e9/float64(l.rate))
	return l.busy, true
}

// Count is what became of the packets of one direction of a link.
type Count struct {
	// Sent came in at the link, Delivered left it at its other end.
	Sent      uint64 `json:"sent"`
	Delivered uint64 `json:"delivered"`
	Bytes     uint64 `json:"bytes"` // that came in
	// Data packets among Sent carry something: TCP segments that are not empty,
	// and all that is not TCP.
	Data uint64 `json:"data"`
	// Lost by chance, Cut by a link that was cut, Dropped for want of room.
	Lost    uint64 `json:"lost"`
	Cut     uint64 `json:"cut"`
	Dropped uint64 `json:"dropped"`
}

// Add returns the sum.
func (c Count) Add(o Count) Count {
	return Count{c.Sent + o.Sent, c.Delivered + o.Delivered, c.Bytes + o.Bytes, c.Data + o.Data, c.Lost + o.Lost, c.Cut + o.Cut, c.Dropped + o.Dropped}
}

// maxFlying packets of one direction: more are dropped, whatever the rate.
const maxFlying = 1 << 15

// pipe is one direction of a link at work. Times are nanoseconds of a clock that
// only goes forward.
type pipe struct {
	Link
	count    Count
	draw     *rand.Rand
	line     line
	last     int64 // when the packet before is due
	inFlight int   // packets that came in and did not leave
}

func newPipe(l Link, seed uint64, from, to int) *pipe {
	return &pipe{Link: l, line: line{rate: l.Rate, buffer: l.Buffer}, draw: rand.New(rand.NewPCG(seed, uint64(from)<<32|uint64(to)))}
}

// admit says when a packet that comes at now is due at the other end; false if
// it does not get there. Before the link it passes lines that are shared with others:
// see Switch.way.
func (p *pipe) admit(shared []*line, now int64, size int, data bool) (due int64, ok bool) {
	p.count.Sent++
	p.count.Bytes += uint64(size)
	if data {
		p.count.Data++
	}
	for _, l := range shared {
		if now, ok = l.pass(now, size); !ok {
			p.count.Dropped++
			return 0, false
		}
	}
	if p.Cut {
		p.count.Cut++
		return 0, false
	}
	// A number is drawn for each packet, so that what one link loses does not
	// depend on what its loss was before.
	chance, wobble := p.draw.Float64(), 0.0
	if p.Jitter > 0 {
		wobble = 2*p.draw.Float64() - 1
	}
	if chance < p.Loss {
		p.count.Lost++
		return 0, false
	}
	if p.inFlight >= maxFlying {
		p.count.Dropped++
		return 0, false
	}
	leaves, ok := p.line.pass(now, size)
	if !ok {
		p.count.Dropped++
		return 0, false
	}
	due = leaves + max(0, int64(p.Latency)+int64(wobble*float64(p.Jitter)))
	if !p.Reorder {
		due = max(due, p.last)
	}
	p.last = due
	p.inFlight++
	return due, true
}

// deliver ends the flight of a packet; false if the link was cut meanwhile.
func (p *pipe) deliver() bool {
	p.inFlight--
	if p.Cut {
		p.count.Cut++
		return false
	}
	p.count.Delivered++
	return true
}

// set changes the link. What is on its way stays due as it was; what comes is
// not held back by what was slower before, as long as order permits it.
func (p *pipe) set(l Link) {
	p.Link = l
	p.line.rate, p.line.buffer = l.Rate, l.Buffer
	if l.Rate == 0 {
		p.line.busy = 0
	}
}
