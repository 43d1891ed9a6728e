package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	// It reads and writes both versions of the header, and what balancers make of them.
	"github.com/pires/go-proxyproto"

	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/sockets"
)

// gatePort is a port at which a gateway publishes a tcp or udp port.
type gatePort struct {
	udp    bool
	number int
}

// String is "5432/tcp".
func (k gatePort) String() string {
	if k.udp {
		return strconv.Itoa(k.number) + "/udp"
	}
	return strconv.Itoa(k.number) + "/tcp"
}

// gatePorts are the listeners of a gateway for tcp and udp ports. What a port leads
// to is looked up for each connection, so that a change of it needs no new listener.
type gatePorts struct {
	gate *Gateway

	mu   sync.Mutex // guards below
	open map[gatePort]*portListener
	over bool
}

// portListener is one of them.
type portListener struct {
	key  gatePort
	addr string

	mu      sync.Mutex // guards below
	ln      interface{ Close() error }
	problem string // why there is no ln
	closed  bool
	done    chan struct{} // closed with closed
}

// set opens the wanted listeners and closes the others. Connections and sessions of closed ones
// continue.
func (g *gatePorts) set(want map[gatePort]published) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	for k, l := range g.open {
		if _, ok := want[k]; !ok {
			l.close()
			delete(g.open, k)
		}
	}
	for k := range want {
		if g.open[k] != nil {
			continue
		}
		l := &portListener{key: k, addr: net.JoinHostPort(g.gate.host(), strconv.Itoa(k.number)),
			done: make(chan struct{})}
		if why := g.gate.forbidden(k); why != "" {
			l.problem = why
			g.open[k] = l
			continue
		}
		if g.gate.opts.Spawn(func(ctx context.Context) { g.gate.listenPort(ctx, l) }) {
			g.open[k] = l
		}
	}
	g.gate.changed()
}

// Close ends all of them for good.
func (g *gatePorts) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	for _, l := range g.open {
		l.close()
	}
	clear(g.open)
}

// list are the ports and what is wrong with them, in order.
func (g *gatePorts) list() []PortState {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]PortState, 0, len(g.open))
	table := g.gate.routes.Load()
	for _, k := range slices.SortedFunc(maps.Keys(g.open), func(a, b gatePort) int {
		return 2*(a.number-b.number) + order(a.udp) - order(b.udp)
	}) {
		l := g.open[k]
		l.mu.Lock()
		st := PortState{Port: k.number, UDP: k.udp, Open: l.ln != nil, Problem: l.problem}
		l.mu.Unlock()
		if p, ok := table.ports[k]; ok {
			st.Service = p.Service.Key
		}
		out = append(out, st)
	}
	return out
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// host is the host at which the gateway listens, "" for all addresses.
func (g *Gateway) host() string {
	for _, addr := range []string{g.opts.Addr, g.opts.TLSAddr} {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			return host
		}
	}
	return ""
}

// forbidden says why a port may not be published here, "" if it may.
func (g *Gateway) forbidden(k gatePort) string {
	from, to := g.opts.Ports[0], g.opts.Ports[1]
	if to == 0 {
		from, to = 1, 65535
	}
	if k.number < from || k.number > to {
		return fmt.Sprintf("this gateway publishes ports from %d to %d only (--gateway-ports)", from, to)
	}
	return ""
}

func (l *portListener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	if l.ln != nil {
		_ = l.ln.Close() // its port is free either way
	}
}

// set notes the listener, or why there is none; false once it is closed.
func (l *portListener) set(ln interface{ Close() error }, problem string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && ln != nil {
		_ = ln.Close()
	}
	l.ln, l.problem = ln, problem
	return !l.closed
}

// wait waits for d; false once it is closed.
func (l *portListener) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

// listenPort serves a port until it is closed, and waits for what it accepted.
func (g *Gateway) listenPort(ctx context.Context, l *portListener) {
	defer context.AfterFunc(ctx, l.close)()
	var lc net.ListenConfig
	for delay := entries.RebindFirst; ; delay = min(2*delay, entries.RebindMax) {
		var err error
		if l.key.udp {
			var pc net.PacketConn
			err = g.opts.Opener.InPublic(func() (err error) {
				pc, err = lc.ListenPacket(ctx, "udp", l.addr)
				return err
			})
			if err == nil && l.set(pc, "") {
				g.changed()
				g.serveDatagrams(ctx, l, pc.(*net.UDPConn)) //nolint:forcetypeassert // that is what "udp" makes
				return
			}
		} else {
			var ln net.Listener
			err = g.opts.Opener.InPublic(func() (err error) {
				ln, err = g.opts.Opener.Listener(lc, "port").Listen(ctx, "tcp", l.addr)
				return err
			})
			if err == nil && l.set(ln, "") {
				g.changed()
				g.serveConns(ctx, l, ln)
				return
			}
		}
		if err == nil || ctx.Err() != nil || !l.set(nil, portWhy(l.key, err)) {
			return
		}
		g.changed()
		if !l.wait(delay) {
			return
		}
	}
}

// portWhy says why a port is not listened on.
func portWhy(k gatePort, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("port %s is taken by something else on this machine (it is tried again)", k)
	case errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("port %s needs rights that the worker does not have", k)
	}
	return fmt.Sprintf("port %s cannot be listened on: %v (it is tried again)", k, err)
}

// changed says that Gateway may say something else.
func (g *Gateway) changed() {
	if g.opts.Changed != nil {
		g.opts.Changed()
	}
}

// serveConns accepts the clients of a tcp port.
func (g *Gateway) serveConns(ctx context.Context, l *portListener, ln net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	sockets.AcceptAll(ln, l.wait, g.opts.Log, func(c *net.TCPConn) {
		if g.trusts(c.RemoteAddr()) {
			conns.Go(func() { // it says first who the client is
				if v, release, ok := g.admit(ctx, c); ok {
					defer release()
					g.serveConn(ctx, l.key, c, v)
				}
			})
			return
		}
		v, release, ok := g.admit(ctx, c)
		if !ok {
			return
		}
		conns.Go(func() {
			defer release()
			g.serveConn(ctx, l.key, c, v)
		})
	})
}

func (g *Gateway) serveConn(ctx context.Context, key gatePort, c *net.TCPConn, v origin) {
	p, ok := g.routes.Load().ports[key]
	if !ok {
		netconn.Cut(c)
		return
	}
	if _, ok := p.take(v.client.String()); !ok {
		g.limited.Add(1)
		netconn.Cut(c)
		return
	}
	netconn.KeepPeer(c)
	var head []byte
	if p.ingress.ProxyProtocol {
		var err error
		if head, err = ProxyHeader(v.client, v.here); err != nil {
			g.opts.Log.Error("the client's address cannot be told", "port", key.String(), "why", err)
			netconn.Cut(c)
			return
		}
	}
	g.opts.Services.ServeClient(ctx, p.Service, p.Port, c, head)
}

// ProxyHeader tells who the client is, by the PROXY protocol, version 2.
func ProxyHeader(client, local net.Addr) ([]byte, error) {
	head, err := proxyproto.HeaderProxyFromAddrs(2, client, local).Format()
	if err != nil {
		return nil, fmt.Errorf("header of the PROXY protocol: %w", err)
	}
	return head, nil
}
