package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// port of workers' own addresses in the service network, over UDP.
const port = 8477

const (
	// size of a question in bytes, and of every answer; maxSize that of one which is
	// made longer to see whether it arrives.
	size, maxSize = 40, 2048
	// headers of IPv6 and UDP.
	headers = 48
	// maxUnderWay questions at a time.
	maxUnderWay = 1024
	// answersPerSecond is far beyond what all workers together ask one, which is one a
	// second each while they move.
	answersPerSecond = 2000
	// tries of Measure for one worker: the least of five, right after each other, is
	// without what it takes to wake all who have a part in it.
	tries = 5
	// losses of a large packet, after which it counts as one that does not arrive.
	losses = 3
	// parallel is how many workers Measure asks at a time.
	parallel = 32
	// timeout of one question of Measure.
	timeout = 2 * time.Second
)

const (
	magic    = "VRGP"
	kindAsk  = 1
	kindTell = 2
)

// Stats since Open.
type Stats struct {
	// Asked and Answered count this worker's questions, Served those of others,
	// Dropped what was beyond the bounds or means nothing.
	Asked, Answered, Served, Dropped uint64
}

// Prober asks and answers. It is safe for concurrent use.
type Prober struct {
	conn  *net.UDPConn
	limit *rate.Limiter
	done  chan struct{}

	asked, answered, served, dropped atomic.Uint64

	mu   sync.Mutex // guards below
	wait map[uint64]question
}

type question struct {
	to     netip.Addr
	sent   time.Time
	answer chan time.Duration
}

// Open listens at a worker's own address until Close. listen may be nil for
// net.ListenUDP.
func Open(at netip.Addr, listen func(netip.AddrPort) (*net.UDPConn, error)) (*Prober, error) {
	return open(netip.AddrPortFrom(at, port), listen)
}

func open(at netip.AddrPort, listen func(netip.AddrPort) (*net.UDPConn, error)) (*Prober, error) {
	if listen == nil {
		listen = func(at netip.AddrPort) (*net.UDPConn, error) {
			return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		}
	}
	conn, err := listen(at)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	p := &Prober{conn: conn, limit: rate.NewLimiter(answersPerSecond, answersPerSecond/10), done: make(chan struct{}),
		wait: map[uint64]question{}}
	go p.serve()
	return p, nil
}

// Close ends it and waits; questions under way fail.
func (p *Prober) Close() error {
	err := p.conn.Close()
	<-p.done
	return err
}

// Stats of the prober.
func (p *Prober) Stats() Stats {
	return Stats{p.asked.Load(), p.answered.Load(), p.served.Load(), p.dropped.Load()}
}

func (p *Prober) serve() {
	defer close(p.done)
	buf := make([]byte, maxSize+1)
	for {
		n, from, err := p.conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		now := time.Now()
		if err != nil {
			continue // an ICMP error of an earlier question
		}
		long := n > size && n <= maxSize && buf[4] == kindAsk
		if n != size && !long || string(buf[:4]) != magic {
			p.dropped.Add(1)
			continue
		}
		switch buf[4] {
		case kindAsk:
			if !p.limit.AllowN(now, 1) {
				p.dropped.Add(1)
				continue
			}
			buf[4] = kindTell
			p.served.Add(1)                                    // before whoever asked has the answer, and looks
			_, _ = p.conn.WriteToUDPAddrPort(buf[:size], from) // who hears nothing asks again
		case kindTell:
			p.told(binary.BigEndian.Uint64(buf[8:]), from.Addr().Unmap(), now)
		default:
			p.dropped.Add(1)
		}
	}
}

func (p *Prober) told(number uint64, from netip.Addr, now time.Time) {
	p.mu.Lock()
	q, ok := p.wait[number]
	ok = ok && q.to == from
	if ok {
		delete(p.wait, number)
	}
	p.mu.Unlock()
	if !ok {
		p.dropped.Add(1) // too late, or a stranger's
		return
	}
	p.answered.Add(1)
	q.answer <- now.Sub(q.sent)
}

// Ask sends one question to a worker's own address, and returns the time until its
// answer. Without one it fails when ctx ends.
func (p *Prober) Ask(ctx context.Context, to netip.Addr) (time.Duration, error) {
	return p.ask(ctx, netip.AddrPortFrom(to, port), size)
}

// Arrives says whether a packet of so many bytes, with its headers, reaches a worker's
// own address and is answered within timeout; workers before this was there answer
// none. A packet may be lost: it is sent again then, up to twice.
func (p *Prober) Arrives(ctx context.Context, to netip.Addr, bytes int) bool {
	for range losses {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		_, err := p.ask(ctx, netip.AddrPortFrom(to, port), min(max(bytes-headers, size), maxSize))
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

func (p *Prober) ask(ctx context.Context, to netip.AddrPort, size int) (time.Duration, error) {
	b := make([]byte, size)
	copy(b, magic)
	b[4] = kindAsk
	if _, err := rand.Read(b[8:16]); err != nil {
		return 0, fmt.Errorf("number a probe: %w", err)
	}
	number := binary.BigEndian.Uint64(b[8:])
	q := question{to: to.Addr(), answer: make(chan time.Duration, 1)}
	p.mu.Lock()
	if len(p.wait) >= maxUnderWay {
		p.mu.Unlock()
		return 0, fmt.Errorf("there are %d probes under way, which is the most", maxUnderWay)
	}
	q.sent = time.Now()
	p.wait[number] = q
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.wait, number)
		p.mu.Unlock()
	}()
	if _, err := p.conn.WriteToUDPAddrPort(b, to); err != nil {
		return 0, fmt.Errorf("probe %s: %w", to.Addr(), err)
	}
	p.asked.Add(1)
	select {
	case rtt := <-q.answer:
		return rtt, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("probe %s: no answer: %w", to.Addr(), ctx.Err())
	case <-p.done:
		return 0, fmt.Errorf("probe %s: %w", to.Addr(), net.ErrClosed)
	}
}

// Measure asks many workers at once, each up to tries times, and returns the least
// round trip time of each that answered. One that does not answer the first time
// is asked no more.
func (p *Prober) Measure(ctx context.Context, to []netip.Addr) map[netip.Addr]time.Duration {
	ports := make([]netip.AddrPort, len(to))
	for i, a := range to {
		ports[i] = netip.AddrPortFrom(a, port)
	}
	return p.measure(ctx, ports)
}

func (p *Prober) measure(ctx context.Context, to []netip.AddrPort) map[netip.Addr]time.Duration {
	out := make(map[netip.Addr]time.Duration, len(to))
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, a := range to {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for range tries {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				rtt, err := p.ask(ctx, a, size)
				cancel()
				if err != nil {
					return
				}
				mu.Lock()
				if old, ok := out[a.Addr()]; !ok || rtt < old {
					out[a.Addr()] = rtt
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}
