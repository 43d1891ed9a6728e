package local

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// localTimeout of a connect to an instance of this worker.
	localTimeout = time.Second
	// OpenTimeout of all tries for one connection together, here and elsewhere.
	OpenTimeout = 10 * time.Second
)

// Connect opens a connection to an instance of this worker, or, for udp, a
// socket that sends to it.
func (s *Endpoints) Connect(ctx context.Context, id wire.InstanceID, port string, udp, probe bool) (net.Conn, func(),
	error) {
	held := s.inflight.begin(id, probe)
	done := func() { held.end(time.Now()) }
	addr, err := s.Opts.Local.Target(id, port)
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
	conn, err := s.Opts.Dialer.DialContext(dialCtx, network, addr)
	if err != nil {
		done()
		return nil, nil, &failure.OpenError{Blame: failure.BlameFor(ctx, failure.BlameEndpoint), Target: id, Err: err}
	}
	return conn, done, nil
}

// StreamStatus is the answer to a router that wants to send requests to an instance: a sleeping
// one will be there, and why one does not start is answered to the request.
func (s *Endpoints) StreamStatus(id wire.InstanceID, port string) error {
	_, err := s.Opts.Local.Target(id, port)
	if errors.Is(err, ErrAsleep) || errors.As(err, new(*StartError)) {
		return nil
	}
	return err
}

// TargetError says why nothing new may go to an instance, nil if it may.
func (s *Endpoints) TargetError(id wire.InstanceID, port string) error {
	_, err := s.Opts.Local.Target(id, port)
	return err
}
