package data

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/wire"
)

// maxHandshakes at the data port at a time: a handshake is the most expensive
// thing that a stranger can ask for.
const maxHandshakes = 64

// Port accepts streams from other workers for instances of this one.
type Port struct {
	opts       Options
	handshakes chan struct{} // a slot per handshake
	Conns      sockets.Limiter

	accepted atomic.Uint64
	served   atomic.Uint64
	rejected atomic.Uint64 // handshake or preamble failed, or over a limit
	refused  atomic.Uint64 // answered with another status than ok
	traffic  counters.Bytes
}

// Options are what the data port of a worker serves with.
type Options struct {
	Identity *Identity
	Paths    *Paths
	Local    *local.Endpoints
	Log      *slog.Logger
	// Protocols are what else peers may ask for, by the name in the handshake (ALPN).
	Protocols map[string]func(ctx context.Context, conn *tls.Conn)
	// Requests serves a stream of requests for a port of an instance, and calls release
	// once when it has closed it.
	Requests func(conn *tls.Conn, id wire.InstanceID, port string, release func(), t *counters.Bytes)
	// Echo answers a worker that measures this one; nil says nothing.
	Echo func(peer tls.ConnectionState, said []byte) []byte
	// Draining says whether new connections are refused.
	Draining func() bool
	// MaxConns bounds the connections that are open at a time.
	MaxConns int
}

// New makes the data port; Serve opens it for a listener.
func New(opts Options) *Port {
	d := &Port{opts: opts, handshakes: make(chan struct{}, maxHandshakes)}
	d.Conns.Max = int64(opts.MaxConns)
	return d
}

// Serve accepts streams from other workers until ctx ends.
func (d *Port) Serve(ctx context.Context, ln net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	wait := sockets.WaitOrDone(ctx)
	sockets.AcceptAll(ln, func(t time.Duration) bool { return !d.opts.Draining() && wait(t) }, d.opts.Log,
		func(c *net.TCPConn) {
			conns.Go(func() {
				defer context.AfterFunc(ctx, func() { netconn.Cut(c) })()
				d.serveConn(ctx, c)
			})
		})
}

// serveConn handles one connection.
func (d *Port) serveConn(ctx context.Context, raw *net.TCPConn) {
	d.accepted.Add(1)
	if !d.Conns.Take() {
		d.rejected.Add(1)
		netconn.Cut(raw)
		return
	}
	held := true
	defer func() {
		if held {
			d.Conns.Give()
		}
	}()
	netconn.KeepPeer(raw)
	conn, p, other, err := d.admit(ctx, raw)
	if other != nil {
		d.served.Add(1)
		defer d.opts.Paths.Add(conn, "")()
		other(ctx, conn)
		return
	}
	if err != nil {
		d.rejected.Add(1)
		d.opts.Log.Debug("data port: connection rejected", "from", raw.RemoteAddr().String(), "why", err)
		netconn.Cut(raw)
		return
	}
	if p.HTTP && !p.Probe {
		held = !d.serveStream(conn, p)
		return
	}
	defer d.opts.Paths.Add(conn, "")()
	if p.measure {
		if d.answer(conn, StatusOK, "") {
			d.echo(conn)
		}
		_ = conn.Close()
		return
	}
	if p.Probe && errors.Is(d.opts.Local.TargetError(p.Instance, p.Port), local.ErrAsleep) {
		d.answer(conn, StatusOK, "") // it would be there
		_ = conn.Close()
		return
	}
	target, release, err := d.opts.Local.Connect(ctx, p.Instance, p.Port, p.Datagrams, p.Probe)
	if err != nil {
		d.refused.Add(1)
		// The peer may belong to another operator: it learns what is wrong, but nothing about
		// this site.
		st, why := StatusRefused, "the instance accepts no connection"
		if failure.NotNow(err) {
			st, why = statusOf(err), err.Error()
		}
		d.answer(conn, st, why)
		_ = conn.Close()
		return
	}
	defer release()
	if !d.answer(conn, StatusOK, "") || p.Probe {
		_ = target.Close()
		_ = conn.Close()
		return
	}
	d.served.Add(1)
	if p.Datagrams {
		relay.Datagrams(ctx, conn, target, &d.traffic)
		return
	}
	relay.Streams(ctx, conn, target, &d.traffic)
}

// serveStream gives a stream of requests to the HTTP server, which closes and releases
// it; false: it is refused, and closed.
func (d *Port) serveStream(conn *tls.Conn, p Preamble) bool {
	if err := d.opts.Local.StreamStatus(p.Instance, p.Port); err != nil {
		d.refused.Add(1)
		d.answer(conn, statusOf(err), err.Error())
		_ = conn.Close()
		return false
	}
	if !d.answer(conn, StatusOK, "") {
		_ = conn.Close()
		return false
	}
	d.served.Add(1)
	done := d.opts.Paths.Add(conn, "")
	d.opts.Requests(conn, p.Instance, p.Port, func() {
		done()
		d.Conns.Give()
	}, &d.traffic)
	return true
}

// admit does the handshake and reads the preamble, each within its time. other
// is who serves the connection instead, where the peer asked for another protocol.
func (d *Port) admit(ctx context.Context, raw *net.TCPConn) (conn *tls.Conn, p Preamble,
	other func(context.Context, *tls.Conn), err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*PathTimeout) // over a bad line it takes long
	defer cancel()
	cfg, err := d.opts.Identity.server(time.Now())
	if err != nil {
		return nil, Preamble{}, nil, err
	}
	for name := range d.opts.Protocols {
		cfg.NextProtos = append(cfg.NextProtos, name)
	}
	conn = tls.Server(newStrictConn(raw), cfg)
	if err := d.handshake(ctx, conn); err != nil {
		return nil, Preamble{}, nil, err
	}
	if other := d.opts.Protocols[conn.ConnectionState().NegotiatedProtocol]; other != nil {
		return conn, Preamble{}, other, nil
	}
	if err := conn.SetDeadline(time.Now().Add(PathTimeout)); err != nil {
		return nil, Preamble{}, nil, fmt.Errorf("set deadline: %w", err)
	}
	p, err = readPreamble(conn)
	if err != nil {
		if errors.Is(err, errPreamble) {
			d.answer(conn, StatusBad, err.Error())
		}
		return nil, Preamble{}, nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, Preamble{}, nil, fmt.Errorf("clear deadline: %w", err)
	}
	return conn, p, nil, nil
}

func (d *Port) handshake(ctx context.Context, conn *tls.Conn) error {
	select {
	case d.handshakes <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for a handshake slot: %w", ctx.Err())
	}
	defer func() { <-d.handshakes }()
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return nil
}

// answer is false where the peer is gone. A peer that does not read does not
// hold it up: the answer fits into any socket buffer.
func (d *Port) answer(conn *tls.Conn, s Status, reason string) bool {
	if err := writeAnswer(conn, s, reason); err != nil {
		d.opts.Log.Debug("data port: peer left", "from", conn.RemoteAddr().String(), "why", err)
		return false
	}
	return true
}

// Stats returns the counters.
func (d *Port) Stats() Stats {
	return Stats{
		Accepted: d.accepted.Load(), Served: d.served.Load(), Refused: d.refused.Load(),
		Rejected: d.rejected.Load(), Open: d.Conns.Open(), Traffic: d.traffic.Read(),
	}
}

// Shaking are the handshakes that are under way.
func (d *Port) Shaking() int { return len(d.handshakes) }
