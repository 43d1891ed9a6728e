package data

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// DialTimeout of a TCP connect to another worker: the first segment may be
	// lost twice (retransmitted after 1 s and 3 s) only on a very bad link, once
	// on a bad one.
	DialTimeout = 3 * time.Second
	// PathTimeout of connect, handshake and answer together, and of the handshake
	// and the preamble each on the accepting side.
	PathTimeout = 5 * time.Second
)

// Dialer opens streams to other workers, and measures the way to them.
type Dialer struct {
	cluster  string // the own one
	identity *Identity
	dialer   sockets.Dialer
	peerName func(cluster, worker string) string
	Paths    *Paths
	measures echoConns
}

// NewDialer makes one for a worker of a cluster, which shows identity to others.
// peerName is the TLS server name of a worker.
func NewDialer(cluster string, id *Identity, d sockets.Dialer, peerName func(cluster, worker string) string,
	p *Paths) *Dialer {
	return &Dialer{cluster: cluster, identity: id, dialer: d, peerName: peerName, Paths: p}
}

// Close closes the connections that are kept for measuring.
func (d *Dialer) Close() { d.measures.close() }

// Open opens a stream to an instance of another worker.
func (d *Dialer) Open(ctx context.Context, e wire.Endpoint, head Preamble) (_ *tls.Conn, err error) {
	began := time.Now()
	fail := func(b failure.Blame, step string, err error) (*tls.Conn, error) {
		return nil, &failure.OpenError{
			Began: began, Blame: failure.BlameFor(ctx, b), Target: e.Instance + " at worker " + e.Worker,
			Err: fmt.Errorf("%s: %w", step, err), NotNow: errors.As(err, new(failure.NotNowError)),
		}
	}
	hello, err := head.Encode()
	if err != nil {
		return fail(failure.BlameEndpoint, "make preamble", err)
	}
	if d.identity.source == nil {
		return fail(failure.BlameSelf, "open stream", errNoDataPath)
	}
	cfg, err := d.identity.client(d.peerName(e.Cluster, e.Worker), e.Cluster != d.cluster)
	if err != nil {
		return fail(failure.BlameSelf, "open stream", err)
	}
	deadline := began.Add(PathTimeout)
	dialed, err := d.dialer.DialContext(ctx, "tcp", e.Address)
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
	case st != StatusOK:
		_ = conn.Close()
		err := fmt.Errorf("%s (%s)", st, reason)
		if st == StatusNoInstance || st == StatusNotReady || st == StatusDraining {
			err = failure.NotNowError{Err: err}
		}
		return fail(failure.BlameEndpoint, "refused by its worker", err)
	}
	return conn, nil
}

// greet does the handshake, sends the preamble and reads the answer.
func greet(conn *tls.Conn, hello []byte, deadline time.Time) (Status, string, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, "", fmt.Errorf("set deadline: %w", err)
	}
	if err := conn.Handshake(); err != nil {
		return 0, "", fmt.Errorf("handshake: %w", err)
	}
	if _, err := conn.Write(hello); err != nil {
		return 0, "", fmt.Errorf("send preamble: %w", err)
	}
	return ReadAnswer(conn)
}
