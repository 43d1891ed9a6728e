package gateway

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/router"
)

// clientSessions are those of one udp port.
type clientSessions struct {
	g    *Gateway
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
func (g *Gateway) serveDatagrams(ctx context.Context, l *portListener, pc *net.UDPConn) {
	s := &clientSessions{g: g, key: l.key, pc: pc, idle: relay.DatagramIdle, by: map[netip.AddrPort]*session{},
		of: map[netip.Addr]int{}}
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()
	buf := make([]byte, relay.MaxDatagram+1)
	for {
		n, client, err := pc.ReadFromUDPAddrPort(buf)
		if err != nil {
			// An error of one client's (ICMP) is none of the socket.
			if errors.Is(err, net.ErrClosed) || !l.wait(time.Millisecond) {
				return
			}
			continue
		}
		g.traffic.Received.Add(uint64(n))
		s.take(ctx, client, append([]byte(nil), buf[:n]...))
	}
}

// take gives a datagram to the session of its client, or begins one.
func (s *clientSessions) take(ctx context.Context, client netip.AddrPort, datagram []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.by[client]
	if x == nil {
		if len(s.by) >= relay.MaxSessions || s.of[client.Addr()] >= relay.MaxClientSessions {
			s.g.rejected.Add(1)
			return
		}
		x = &session{client: client, in: make(chan []byte, relay.DatagramsWaiting)}
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
	p, ok := s.g.routes.Load().ports[s.key]
	if !ok {
		return
	}
	p.Service.Connections.Add(1)
	begin := time.Now()
	err := s.g.opts.Services.Arrive(ctx, p.Service, begin)
	var upstream net.Conn
	var release func()
	var e *router.Endpoint
	if err == nil {
		upstream, release, e, err = s.g.opts.Services.Open(ctx, p.Service, p.Port)
	}
	p.Service.Connects.Observe(time.Since(begin))
	if err != nil {
		p.Service.Failures.Add(1)
		s.g.opts.Log.Debug("datagrams refused", "service", p.Service.Key, "port", p.Port, "why", err)
		return
	}
	defer release()
	e.Active.Add(1)
	defer e.Active.Add(-1)
	var head []byte
	if p.ingress.ProxyProtocol {
		if head, err = ProxyHeader(net.UDPAddrFromAddrPort(x.client), s.pc.LocalAddr()); err != nil {
			s.g.opts.Log.Error("the client's address cannot be told", "port", s.key.String(), "why", err)
			_ = upstream.Close()
			return
		}
	}
	gone := make(chan struct{})
	s.wg.Go(func() {
		defer close(gone)
		s.back(x, upstream, &p.Service.Traffic)
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
			p.Service.Traffic.Received.Add(uint64(len(datagram)))
			// Both sides keep it alive.
			_ = upstream.SetReadDeadline(time.Now().Add(s.idle))
			if _, err := upstream.Write(append(head[:len(head):len(head)], datagram...)); err != nil {
				return
			}
		}
	}
}

// back leads what an instance says to the client.
func (s *clientSessions) back(x *session, upstream net.Conn, t *counters.Bytes) {
	buf := make([]byte, relay.MaxDatagram)
	for {
		n, err := upstream.Read(buf)
		if err != nil {
			return
		}
		_ = upstream.SetReadDeadline(time.Now().Add(s.idle))
		if _, err := s.pc.WriteToUDPAddrPort(buf[:n], x.client); err == nil {
			t.Sent.Add(uint64(n))
			s.g.traffic.Sent.Add(uint64(n))
		}
	}
}
