package relay

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.org/x/time/rate"
)

// channel is a pair of UDP ports: what one worker sends to its port leaves from
// the other one's.
type channel struct {
	s      *Server
	paused atomic.Bool
	used   atomic.Int64 // Unix seconds of the last packet that was forwarded, or of the last request
	limit  *rate.Limiter
	sides  [2]*side
}

// side is one worker's end.
type side struct {
	who     id
	conn    *net.UDPConn
	mac1    [32]byte // key of the first checksum of handshakes that are for who
	outside func() netip.Addr

	mu   sync.Mutex     // guards below
	at   netip.AddrPort // where the worker sends from; zero: not known yet
	last time.Time      // when it did
	held []byte         // a handshake for it that came before that was known
}

// pairOf orders two workers.
func pairOf(a, b id) [2]id {
	if a.cluster > b.cluster || a.cluster == b.cluster && a.worker > b.worker {
		a, b = b, a
	}
	return [2]id{a, b}
}

// channel between two workers, made if there is none, and open. The mutex is held.
func (s *Server) channel(a, b *member) (*channel, error) {
	if a.id == b.id {
		return nil, errors.New("a worker needs no way to itself")
	}
	if s.ctx.Err() != nil {
		return nil, errors.New("the relay is ending")
	}
	pair := pairOf(a.id, b.id)
	if c := s.channels[pair]; c != nil {
		c.paused.Store(false)
		c.touch()
		return c, nil
	}
	if len(s.channels) >= MaxChannels {
		return nil, errors.New("all ways through this relay are in use")
	}
	c := &channel{s: s}
	if r := s.opts.Rate; r > 0 {
		c.limit = rate.NewLimiter(rate.Limit(r/8), int(max(r/8/20, maxPacket*32)))
	}
	for i, who := range pair {
		conn, err := s.listenChannel()
		if err != nil {
			c.close()
			return nil, err
		}
		m := s.members[who]
		c.sides[i] = &side{who: who, conn: conn, mac1: blake2s.Sum256(append([]byte("mac1----"), m.key[:]...)),
			outside: func() netip.Addr { return s.tun.outside(m.key).Addr() }}
	}
	c.touch()
	s.channels[pair] = c
	for i := range c.sides {
		s.wg.Go(func() { c.forward(c.sides[i], c.sides[1-i]) })
	}
	return c, nil
}

// listenChannel opens a UDP port of the range.
func (s *Server) listenChannel() (*net.UDPConn, error) {
	ip := net.IP(nil)
	if a := s.Addr().Addr(); !a.IsUnspecified() {
		ip = a.AsSlice()
	}
	first, last := int(s.opts.Ports[0]), int(s.opts.Ports[1])
	for p := first; p <= max(first, last); p++ {
		if conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: p}); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("no UDP port from %d to %d is free", first, last)
}

func (c *channel) touch()             { c.used.Store(time.Now().Unix()) }
func (c *channel) lastUse() time.Time { return time.Unix(c.used.Load(), 0) }

func (c *channel) portOf(who id) uint16 {
	for _, s := range c.sides {
		if s.who == who {
			return uint16(s.conn.LocalAddr().(*net.UDPAddr).Port)
		}
	}
	return 0
}

func (c *channel) close() {
	for _, s := range c.sides {
		if s != nil {
			_ = s.conn.Close()
		}
	}
}

// Messages of WireGuard: the first byte, their lengths, and where the checksum
// that only who knows the receiver's key can make begins.
const (
	msgInitiation, initiationSize, initiationMAC = 1, 148, 116
	msgResponse, responseSize, responseMAC       = 2, 92, 60
	msgCookie, cookieSize                        = 3, 64
	msgData, dataMin                             = 4, 32
	maxPacket                                    = 2048
	// quiet is how long the known sender says nothing before another address of the
	// same NAT may take its place without a handshake.
	quiet = 5 * time.Second
)

// forward takes what arrives from one worker to the other until the port is
// closed.
func (c *channel) forward(from, to *side) {
	buf := make([]byte, maxPacket)
	for {
		n, src, err := from.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier packet
		}
		src = netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
		pkt := buf[:n]
		ours := from.accepts(pkt, src, to)
		if ours {
			held := from.takeHeld()
			// Two handshakes that cross end each other: of two first ones the newer goes on.
			if held != nil && (held[0] != msgInitiation || pkt[0] != msgInitiation) {
				_, _ = from.conn.WriteToUDPAddrPort(held, src)
			}
		}
		if !ours || c.paused.Load() || c.limit != nil && !c.limit.AllowN(time.Now(), n) || !c.send(to, pkt) {
			c.s.droppeds.Add(1)
			continue
		}
		c.touch()
		c.s.packets.Add(1)
		c.s.bytes.Add(uint64(n))
	}
}

// accepts says whether a packet is WireGuard's, from the worker of this side for
// that of the other, and notes where the worker sends from.
func (s *side) accepts(pkt []byte, src netip.AddrPort, to *side) bool {
	if len(pkt) < 4 || pkt[1] != 0 || pkt[2] != 0 || pkt[3] != 0 {
		return false
	}
	proven := false
	switch {
	case pkt[0] == msgInitiation && len(pkt) == initiationSize:
		proven = isFor(pkt, initiationMAC, &to.mac1)
	case pkt[0] == msgResponse && len(pkt) == responseSize:
		proven = isFor(pkt, responseMAC, &to.mac1)
	case pkt[0] == msgCookie && len(pkt) == cookieSize, pkt[0] == msgData && len(pkt) >= dataMin:
	default:
		return false
	}
	now := time.Now()
	s.mu.Lock()
	if s.at == src {
		s.last = now
		s.mu.Unlock()
		return proven || pkt[0] == msgCookie || pkt[0] == msgData
	}
	free := !s.at.IsValid() || now.Sub(s.last) > quiet
	s.mu.Unlock()
	switch {
	case proven:
	case pkt[0] == msgData && free && s.outside() == src.Addr():
		// It has a session with the other already, and so makes no handshake now.
	default:
		return false
	}
	s.mu.Lock()
	s.at, s.last = src, now
	s.mu.Unlock()
	return true
}

func isFor(pkt []byte, at int, key *[32]byte) bool {
	h, err := blake2s.New128(key[:])
	if err != nil {
		return false
	}
	_, _ = h.Write(pkt[:at])
	return subtle.ConstantTimeCompare(h.Sum(nil), pkt[at:at+16]) == 1
}

// send delivers a packet to a side. A handshake that comes before it is known
// where that is waits there: the sender would repeat it after five seconds only.
func (c *channel) send(to *side, pkt []byte) bool {
	to.mu.Lock()
	at := to.at
	if !at.IsValid() {
		if pkt[0] == msgInitiation || pkt[0] == msgResponse {
			to.held = append([]byte(nil), pkt...)
		}
		to.mu.Unlock()
		return false
	}
	to.mu.Unlock()
	_, err := to.conn.WriteToUDPAddrPort(pkt, at)
	return err == nil
}

func (s *side) takeHeld() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.held = nil
	return held
}
