package router

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// maxTries of endpoints for one connection.
const maxTries = 64

// purpose of a connection to an endpoint.
type purpose int

// What a connection to an endpoint is for.
const (
	forBytes    purpose = iota // it carries what a client sends
	forRequests                // of another worker: its router looks at each request
	ForProbe                   // it is closed at once; over the data path the other router makes it
)

// connect opens a connection to one endpoint, without judging the endpoint. The
// caller calls release once, after it closed the connection; with an error both
// are nil.
func (r *Services) connect(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
	udp := e.service.isUDP(port)
	if e.Local {
		return r.Local.Connect(ctx, e.Instance, port, udp, what == ForProbe)
	}
	conn, err := r.dialer.Open(ctx, e.Endpoint, data.Preamble{Instance: e.Instance, Port: port, Probe: what == ForProbe, HTTP: what == forRequests, Datagrams: udp})
	if err != nil {
		return nil, nil, err
	}
	e.Reached.Store(counters.Stamp(time.Now()))
	if udp {
		return &netconn.DatagramStream{Conn: conn}, r.dialer.Paths.Add(conn, e.Address), nil
	}
	return conn, r.dialer.Paths.Add(conn, e.Address), nil
}

// Dial opens a connection to one endpoint and draws the consequences for its
// health.
func (r *Services) Dial(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
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
	e.Failures.Add(1)
	r.Judge(e, err)
	return nil, nil, err
}

// timed is connect, and looks at the time that it takes.
func (r *Services) timed(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
	if e.Local {
		return r.connect(ctx, e, port, what)
	}
	defer r.hedge(e)()
	begin := time.Now()
	conn, release, err := r.connect(ctx, e, port, what)
	if err == nil {
		e.Opened(time.Since(begin))
	}
	return conn, release, err
}

// Judge ejects what a failed try speaks against.
func (r *Services) Judge(e *Endpoint, err error) {
	var oe *failure.OpenError
	if !errors.As(err, &oe) || failure.OutOfResources(err) {
		return
	}
	switch oe.Blame {
	case failure.BlameSelf:
	case failure.BlameEndpoint:
		r.Eject(e, oe.Err.Error())
	case failure.BlameWorker:
		// e may be of a table that was replaced meanwhile.
		all := append(slices.Clip(r.table.Load().byAddress[e.Address]), e)
		var late net.Error // of a read, which is os.ErrDeadlineExceeded, and of connecting, which is not
		if errors.As(err, &late) && late.Timeout() && reachedSince(all, oe.Began) {
			r.Opts.Log.Debug("a stream was not opened in time", "worker", e.Worker, "why", oe.Err)
			return
		}
		r.lose(all, oe.Err.Error())
	}
}

// reachedSince says whether a stream to one of these endpoints, which have an address in
// common, was opened after began, or one of them answered. What took too long then is no sign that their worker is
// gone: it, or this one, has much to do.
func reachedSince(list []*Endpoint, began time.Time) bool {
	return slices.ContainsFunc(list, func(e *Endpoint) bool { return e.Reached.Load() > counters.Stamp(began) })
}

// lose ejects endpoints whose worker cannot be reached, and takes back what waits
// for them.
func (r *Services) lose(list []*Endpoint, why string) {
	for _, e := range list {
		e.Lost.Store(true)
		r.Eject(e, why)
	}
	abandon(list)
}
