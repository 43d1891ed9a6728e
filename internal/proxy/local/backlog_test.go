package local

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/queue"
)

// An instance whose backlog is full is waited for as long as it does something for
// others, and is not to blame for it.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { must(t, ln.Close()) }()
		dial := func(x *Endpoint, ctx context.Context, takes time.Duration, answers bool) (time.Duration, error) {
			began := time.Now()
			x.all = &Endpoints{Opts: Options{Dialer: &net.Dialer{ControlContext: func(ctx context.Context, _, _ string,
				_ syscall.RawConn) error {
				if answers {
					x.seen.Store(counters.Stamp(time.Now()))
				}
				if time.Since(began) >= takes {
					return nil
				}
				<-ctx.Done() // as if the kernel dropped it
				return ctx.Err()
			}}}}
			c, err := x.Dial(ctx, ln.Addr().String())
			took := time.Since(began)
			if err == nil {
				must(t, c.Close())
			}
			return took, err
		}
		fresh := func() *Endpoint {
			x := &Endpoint{id: "app.web.0", Queue: queue.New(queue.Limits{}, time.Now())}
			x.seen.Store(counters.Stamp(time.Now().Add(-time.Hour)))
			return x
		}
		var oe *failure.OpenError
		var re *failure.RefusedError
		if took, err := dial(fresh(), t.Context(), 3*time.Second, true); err != nil || took < 3*time.Second ||
			took > 3*time.Second+backlogTry {
			t.Errorf("much to do: %v, %v", took, err)
		}
		if took, err := dial(fresh(), t.Context(), time.Hour, true); !errors.As(err, &re) ||
			re.Why != failure.RefusedFull || errors.As(err, &oe) || took < backlogWait {
			t.Errorf("too much to do: %v, %v", took, err)
		}
		if took, err := dial(fresh(), t.Context(), time.Hour, false); !errors.As(err, &oe) ||
			oe.Blame != failure.BlameEndpoint || took != localTimeout {
			t.Errorf("gone: %v, %v", took, err)
		}
		x := fresh()
		x.seen.Store(counters.Stamp(time.Now()))
		if took, err := dial(x, t.Context(), time.Hour, false); !errors.As(err, &re) || took < backlogWait {
			t.Errorf("began to do something: %v, %v", took, err)
		}
		// The machine stands still for longer than one with much to do is waited for.
		stood, tries := fresh(), 0
		stood.seen.Store(counters.Stamp(time.Now()))
		stood.all = &Endpoints{Opts: Options{Dialer: &net.Dialer{ControlContext: func(ctx context.Context, _, _ string,
			_ syscall.RawConn) error {
			if tries++; tries > 1 {
				return nil
			}
			time.Sleep(backlogWait + time.Second)
			stood.seen.Store(counters.Stamp(time.Now()))
			return ctx.Err()
		}}}}
		c, err := stood.Dial(t.Context(), ln.Addr().String())
		if err != nil || tries != 2 {
			t.Errorf("the machine stood still: %v after %d tries", err, tries)
		} else {
			must(t, c.Close())
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, failure.ErrLate)
		defer cancel()
		if took, err := dial(fresh(), ctx, time.Hour, true); !errors.Is(err, failure.ErrLate) ||
			took != 500*time.Millisecond {
			t.Errorf("a deadline: %v, %v", took, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		if _, err := dial(fresh(), ctx, time.Hour, true); !errors.As(err, &oe) || oe.Blame != failure.BlameSelf {
			t.Errorf("the client left: %v", err)
		}
	})
}
