package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Datagrams of clients that a gateway was sent go to an instance of this worker as
// they are, and to those of others over a stream, each with its length before it
// (2 bytes, big endian). A client and the instance that it was led to are a session
// for as long as one of them says something.
const (
	// datagramIdle is how long both may be silent.
	datagramIdle = 60 * time.Second
	// maxSessions of one port, and maxClientSessions of one client, that has a socket
	// for each.
	maxSessions       = 4096
	maxClientSessions = 256
	// maxDatagram is what IP allows.
	maxDatagram = 65_507
	// datagramsWaiting are kept for an instance while the way to it is opened; what
	// comes beyond that is lost, as datagrams are.
	datagramsWaiting = 32
)

// framed is a stream that carries datagrams: Read and Write are of one each.
type framed struct {
	net.Conn
	writing sync.Mutex
}

// Write implements net.Conn.
func (f *framed) Write(p []byte) (int, error) {
	if len(p) > maxDatagram {
		return 0, fmt.Errorf("a datagram of %d bytes, at most %d", len(p), maxDatagram)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	b := make([]byte, 0, 2+len(p))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(p))), p...)
	if _, err := f.Conn.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read implements net.Conn. What does not fit into p is an error.
func (f *framed) Read(p []byte) (int, error) {
	var head [2]byte
	if _, err := io.ReadFull(f.Conn, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > len(p) {
		return 0, fmt.Errorf("a datagram of %d bytes where %d fit", n, len(p))
	}
	return io.ReadFull(f.Conn, p[:n])
}

// clientSessions are those of one udp port.
type clientSessions struct {
	g    *gateway
	key  gatePort
	pc   *net.UDPConn
	wg   sync.WaitGroup
	idle time.Duration

	mu sync.Mutex // guards below
	by map[netip.AddrPort]*session
	of map[netip.Addr]int // how many each client has
}

// session is one client's.
type session struct {
	client netip.AddrPort
	in     chan []byte // from the client
}

// serveDatagrams leads what comes to a udp port to instances, until l is closed.
func (g *gateway) serveDatagrams(ctx context.Context, l *portListener, pc *net.UDPConn) {
	s := &clientSessions{g: g, key: l.key, pc: pc, idle: datagramIdle, by: map[netip.AddrPort]*session{}, of: map[netip.Addr]int{}}
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	buf := make([]byte, maxDatagram+1)
	for {
		n, client, err := pc.ReadFromUDPAddrPort(buf)
		if err != nil {
			// An error of one client's (ICMP) is none of the socket.
			if errors.Is(err, net.ErrClosed) || !l.wait(time.Millisecond) {
				return
			}
			continue
		}
		g.traffic.received.Add(uint64(n))
		s.take(ctx, client, append([]byte(nil), buf[:n]...))
	}
}

// take gives a datagram to the session of its client, or begins one.
func (s *clientSessions) take(ctx context.Context, client netip.AddrPort, datagram []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.by[client]
	if x == nil {
		if len(s.by) >= maxSessions || s.of[client.Addr()] >= maxClientSessions {
			s.g.rejected.Add(1)
			return
		}
		x = &session{client: client, in: make(chan []byte, datagramsWaiting)}
		s.by[client] = x
		s.of[client.Addr()]++
		s.wg.Go(func() {
			defer s.end(x)
			s.run(ctx, x)
		})
	}
	select {
	case x.in <- datagram:
	default: // lost, as datagrams are
	}
}

func (s *clientSessions) end(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, x.client)
	if s.of[x.client.Addr()]--; s.of[x.client.Addr()] == 0 {
		delete(s.of, x.client.Addr())
	}
}

// run serves a session until both sides are silent or the instance is gone.
func (s *clientSessions) run(ctx context.Context, x *session) {
	p, ok := s.g.r.table.Load().ports[s.key]
	if !ok {
		return
	}
	p.service.connections.Add(1)
	begin := time.Now()
	err := s.g.r.arrive(ctx, p.service, begin)
	var upstream net.Conn
	var release func()
	var e *endpoint
	if err == nil {
		upstream, release, e, err = s.g.r.open(ctx, p.service, p.port)
	}
	p.service.connects.observe(time.Since(begin))
	if err != nil {
		p.service.failures.Add(1)
		s.g.r.log.Debug("datagrams refused", "service", p.service.key, "port", p.port, "why", err)
		return
	}
	defer release()
	e.active.Add(1)
	defer e.active.Add(-1)
	var head []byte
	if p.ingress.ProxyProtocol {
		if head, err = proxyHeader(net.UDPAddrFromAddrPort(x.client), s.pc.LocalAddr()); err != nil {
			s.g.r.log.Error("the client's address cannot be told", "port", s.key.String(), "why", err)
			_ = upstream.Close()
			return
		}
	}
	gone := make(chan struct{})
	s.wg.Go(func() {
		defer close(gone)
		s.back(x, upstream, &p.service.traffic)
	})
	defer func() {
		_ = upstream.Close()
		<-gone
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case datagram := <-x.in:
			p.service.traffic.received.Add(uint64(len(datagram)))
			// Both sides keep it alive.
			_ = upstream.SetReadDeadline(time.Now().Add(s.idle))
			if _, err := upstream.Write(append(head[:len(head):len(head)], datagram...)); err != nil {
				return
			}
		}
	}
}

// back leads what an instance says to the client.
func (s *clientSessions) back(x *session, upstream net.Conn, t *traffic) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := upstream.Read(buf)
		if err != nil {
			return
		}
		_ = upstream.SetReadDeadline(time.Now().Add(s.idle))
		if _, err := s.pc.WriteToUDPAddrPort(buf[:n], x.client); err == nil {
			t.sent.Add(uint64(n))
			s.g.traffic.sent.Add(uint64(n))
		}
	}
}

// relayDatagrams leads datagrams of another worker's gateway to an instance and back,
// until the stream ends or the instance is gone.
func (r *Router) relayDatagrams(ctx context.Context, stream, instance net.Conn, t *traffic) {
	stop := context.AfterFunc(ctx, func() {
		cut(stream)
		_ = instance.Close()
	})
	defer stop()
	f := &framed{Conn: stream}
	var wg sync.WaitGroup
	wg.Go(func() {
		pumpDatagrams(instance, f, &t.received)
		_ = instance.Close()
	})
	pumpDatagrams(f, instance, &t.sent)
	_ = stream.Close()
	wg.Wait()
}

func pumpDatagrams(dst, src net.Conn, count interface{ Add(uint64) uint64 }) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
		count.Add(uint64(n))
	}
}
