package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// Times for opening a connection.
const (
	// localTimeout of a connect to an instance of this worker.
	localTimeout = time.Second
	// dialTimeout of a TCP connect to another worker: the first segment may be
	// lost twice (retransmitted after 1 s and 3 s) only on a very bad link, once
	// on a bad one.
	dialTimeout = 3 * time.Second
	// pathTimeout of connect, handshake and answer together, and of the handshake
	// and the preamble each on the accepting side.
	pathTimeout = 5 * time.Second
	// openTimeout of all tries for one connection together.
	openTimeout = 10 * time.Second
	// maxTries of endpoints for one connection.
	maxTries = 64
)

// purpose of a connection to an endpoint.
type purpose int

const (
	forBytes    purpose = iota // it carries what a client sends
	forRequests                // of another worker: its router looks at each request
	forProbe                   // it is closed at once; over the data path the other router makes it
)

// connect opens a connection to one endpoint, without judging the endpoint. The
// caller calls release once, after it closed the connection; with an error both
// are nil.
func (r *Router) connect(ctx context.Context, e *endpoint, port string, what purpose) (net.Conn, func(), error) {
	udp := e.service.isUDP(port)
	if e.local {
		return r.connectLocal(ctx, e.Instance, port, udp, what == forProbe)
	}
	conn, err := r.connectRemote(ctx, e, preamble{instance: e.Instance, port: port, probe: what == forProbe, http: what == forRequests, datagrams: udp})
	if err != nil {
		return nil, nil, err
	}
	if udp {
		return &netconn.DatagramStream{Conn: conn}, r.paths.add(conn, e.Address), nil
	}
	return conn, r.paths.add(conn, e.Address), nil
}

// connectLocal opens a connection to an instance of this worker, or, for udp, a
// socket that sends to it.
func (r *Router) connectLocal(ctx context.Context, id wire.InstanceID, port string, udp, probe bool) (net.Conn, func(), error) {
	done := r.inflight.begin(id, probe)
	addr, err := r.opts.Local.Target(id, port)
	if err != nil {
		done()
		return nil, nil, &failure.OpenError{Blame: failure.BlameEndpoint, Target: id, Err: err, NotNow: true}
	}
	dialCtx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	network := "tcp"
	if udp {
		network = "udp"
	}
	conn, err := r.localDialer.DialContext(dialCtx, network, addr)
	if err != nil {
		done()
		return nil, nil, &failure.OpenError{Blame: r.blameFor(ctx, failure.BlameEndpoint), Target: id, Err: err}
	}
	return conn, done, nil
}

// connectRemote opens a stream to an instance of another worker.
func (r *Router) connectRemote(ctx context.Context, e *endpoint, head preamble) (_ *tls.Conn, err error) {
	began := time.Now()
	fail := func(b failure.Blame, step string, err error) (*tls.Conn, error) {
		return nil, &failure.OpenError{
			Began: began, Blame: r.blameFor(ctx, b), Target: e.Instance + " at worker " + e.Worker,
			Err: fmt.Errorf("%s: %w", step, err), NotNow: errors.As(err, new(failure.NotNowError)),
		}
	}
	hello, err := head.encode()
	if err != nil {
		return fail(failure.BlameEndpoint, "make preamble", err)
	}
	if r.opts.TLS == nil {
		return fail(failure.BlameSelf, "open stream", errNoDataPath)
	}
	cfg, err := r.identity.client(r.opts.PeerName(e.Cluster, e.Worker), e.Cluster != r.opts.Cluster)
	if err != nil {
		return fail(failure.BlameSelf, "open stream", err)
	}
	deadline := began.Add(pathTimeout)
	dialed, err := r.remoteDialer.DialContext(ctx, "tcp", e.Address)
	if err != nil {
		return fail(failure.BlameWorker, "reach its data port", err)
	}
	tcp, ok := dialed.(*net.TCPConn)
	if !ok {
		_ = dialed.Close()
		return fail(failure.BlameSelf, "reach its data port", fmt.Errorf("%T is no TCP connection", dialed))
	}
	netconn.KeepPeer(tcp)
	raw := newStrictConn(tcp)
	// Both the time limit and the end of ctx cut off handshake and answer.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn := tls.Client(raw, cfg)
	st, reason, err := greet(conn, hello, deadline)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	switch {
	case err != nil:
		_ = raw.Close()
		return fail(failure.BlameWorker, "open stream", err)
	case st != statusOK:
		_ = conn.Close()
		err := fmt.Errorf("%s (%s)", st, reason)
		if st == statusNoInstance || st == statusNotReady || st == statusDraining {
			err = failure.NotNowError{Err: err}
		}
		return fail(failure.BlameEndpoint, "refused by its worker", err)
	}
	e.reached.Store(counters.Stamp(time.Now()))
	return conn, nil
}

// greet does the handshake, sends the preamble and reads the answer.
func greet(conn *tls.Conn, hello []byte, deadline time.Time) (status, string, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, "", fmt.Errorf("set deadline: %w", err)
	}
	if err := conn.Handshake(); err != nil {
		return 0, "", fmt.Errorf("handshake: %w", err)
	}
	if _, err := conn.Write(hello); err != nil {
		return 0, "", fmt.Errorf("send preamble: %w", err)
	}
	return readAnswer(conn)
}

// blameFor takes the blame from the other side where the caller gave up or this
// machine is out of something: a router that is in trouble itself would
// otherwise eject the whole world.
func (r *Router) blameFor(ctx context.Context, b failure.Blame) failure.Blame {
	if errors.Is(ctx.Err(), context.Canceled) {
		return failure.BlameSelf
	}
	return b
}

// dial opens a connection to one endpoint and draws the consequences for its
// health.
func (r *Router) dial(ctx context.Context, e *endpoint, port string, what purpose) (net.Conn, func(), error) {
	wasEjected := e.service.isEjected(e)
	conn, release, err := r.timed(ctx, e, port, what)
	if err == nil {
		e.connections.Add(1)
		if what == forBytes {
			e.service.used(e)
		}
		if wasEjected {
			r.readmit(e)
		}
		return conn, release, nil
	}
	e.failures.Add(1)
	r.judge(e, err)
	return nil, nil, err
}

// timed is connect, and looks at the time that it takes.
func (r *Router) timed(ctx context.Context, e *endpoint, port string, what purpose) (net.Conn, func(), error) {
	if e.local {
		return r.connect(ctx, e, port, what)
	}
	defer r.hurry(e)()
	begin := time.Now()
	conn, release, err := r.connect(ctx, e, port, what)
	if err == nil {
		e.opened(time.Since(begin))
	}
	return conn, release, err
}

// judge ejects what a failed try speaks against.
func (r *Router) judge(e *endpoint, err error) {
	var oe *failure.OpenError
	if !errors.As(err, &oe) || failure.OutOfResources(err) {
		return
	}
	switch oe.Blame {
	case failure.BlameSelf:
	case failure.BlameEndpoint:
		r.eject(e, oe.Err.Error())
	case failure.BlameWorker:
		// e may be of a table that was replaced meanwhile.
		all := append(slices.Clip(r.table.Load().byAddress[e.Address]), e)
		var late net.Error // of a read, which is os.ErrDeadlineExceeded, and of connecting, which is not
		if errors.As(err, &late) && late.Timeout() && reachedSince(all, oe.Began) {
			r.log.Debug("a stream was not opened in time", "worker", e.Worker, "why", oe.Err)
			return
		}
		r.lose(all, oe.Err.Error())
	}
}

// reachedSince says whether a stream to one of these endpoints, which have an address in
// common, was opened after began, or one of them answered. What took too long then is no sign that their worker is
// gone: it, or this one, has much to do.
func reachedSince(list []*endpoint, began time.Time) bool {
	return slices.ContainsFunc(list, func(e *endpoint) bool { return e.reached.Load() > counters.Stamp(began) })
}

// lose ejects endpoints whose worker cannot be reached, and takes back what waits
// for them.
func (r *Router) lose(list []*endpoint, why string) {
	for _, e := range list {
		e.lost.Store(true)
		r.eject(e, why)
	}
	abandon(list)
}
