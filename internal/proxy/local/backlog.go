package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
)

// An instance that takes few connections at a time lets the others wait in the backlog
// of its listener, and when that is full the kernel drops who comes: nothing refuses, and
// the next try of the kernel is a second away. That is an instance with much to do, not
// one that is gone, and it must not be ejected for that, least of all when it is the only
// one.
const (
	// backlogTry is how long one try to connect to an instance here lasts: on one machine
	// a connection is there at once, or it was dropped.
	backlogTry = 200 * time.Millisecond
	// backlogWait is for how long one that has much to do is tried; less than OpenTimeout,
	// so that others can be asked after it.
	backlogWait = 5 * time.Second
	// backlogTries is how often it is tried at least: on a machine that stood still, one
	// try lasts longer than that, and says nothing of the instance.
	backlogTries = 5
	// backlogLast is how long the last try lasts: where processors are wanted by many,
	// a connection that is there can be noticed later than a short try is over.
	backlogLast = 1500 * time.Millisecond
	// leastAlive is how long an instance may say nothing at least, and mostAlive at most,
	// until it is taken for gone; between them it is three times what it takes to answer.
	leastAlive, mostAlive = time.Second, 30 * time.Second
)

// errBacklog is that an instance answers others, and takes no more connections.
var errBacklog = errors.New("it takes no more connections now")

// Dial opens a connection to an instance here. One that does not take it, and has
// done something for others meanwhile, is tried for backlogWait, and some times at least,
// and then called full.
func (x *Endpoint) Dial(ctx context.Context, addr string) (net.Conn, error) {
	began, timeout := time.Now(), backlogTry
	for tries := 1; ; tries++ {
		try, cancel := context.WithTimeout(ctx, timeout)
		conn, err := x.all.Opts.Dialer.DialContext(try, "tcp", addr)
		cancel()
		now := time.Now()
		if err == nil {
			x.seen.Store(counters.Stamp(now))
			return conn, nil
		}
		if cause := context.Cause(ctx); errors.Is(cause, failure.ErrLate) {
			return nil, cause
		}
		dropped := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
		if waited := now.Sub(began); dropped && ctx.Err() == nil {
			switch alive := x.alive(now); {
			case waited < localTimeout, alive && (waited < backlogWait || tries < backlogTries):
				continue
			case alive && timeout < backlogLast:
				timeout = backlogLast
				continue
			case alive:
				return nil, &failure.RefusedError{Why: failure.RefusedFull, Err: fmt.Errorf("%s: %w", x.id, errBacklog)}
			}
		}
		return nil, &failure.OpenError{Blame: failure.BlameFor(ctx, failure.BlameEndpoint), Target: x.id, Err: err}
	}
}

// alive says whether the instance has shown lately that it is there.
func (x *Endpoint) alive(now time.Time) bool {
	silence := OpenTimeout
	if exec := x.Queue.Report(now).Exec; exec > 0 {
		silence = min(max(3*exec, leastAlive), mostAlive)
	}
	return counters.Stamp(now)-x.seen.Load() < int64(silence)
}
