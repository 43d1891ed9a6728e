package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// stallAfter is how long a registry may send nothing.
	stallAfter = 30 * time.Second
	// paceAtOnce is how much a bounded pull takes at once.
	paceAtOnce = 64 << 10
)

// stalled is the error of a registry that sends nothing: one of the network, to be
// tried again. It does not say that it is a timeout: containerd would ask five times in
// a row, and nobody would read for all that time what is wrong.
type stalled struct {
	host  string
	after time.Duration
}

func (e *stalled) Error() string   { return fmt.Sprintf("%s sent nothing for %s", e.host, e.after) }
func (e *stalled) Timeout() bool   { return false }
func (e *stalled) Temporary() bool { return true }

var _ net.Error = (*stalled)(nil)

// transport gives up on registries that send nothing, and holds the pace of all pulls
// together.
type transport struct {
	next  http.RoundTripper
	stall time.Duration
	pace  *rate.Limiter // nil: not bounded
	broke *atomic.Bool  // set where an answer does not end in order; nil: nobody asks
	mute  *sync.Map     // host -> *stalled, of this pull; nil: it is not kept
	reach *reach        // where it may connect to; nil: anywhere
}

// newPace bounds bytes in a second; 0 is nil, no bound.
func newPace(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), paceAtOnce)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.mute != nil {
		// What asks once more in the same pull, by another path, would wait as long again.
		if why, ok := t.mute.Load(r.URL.Host); ok {
			return nil, why.(*stalled)
		}
	}
	asked, began := r.Context(), time.Now()
	ctx, cancel := context.WithCancelCause(asked)
	if t.reach != nil {
		ctx = t.reach.mark(ctx, r, t.next)
	}
	why := &stalled{r.URL.Host, t.stall}
	timer := time.AfterFunc(t.stall, func() { cancel(why) })
	answer, err := t.next.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if err != nil {
		defer cancel(nil)
		err = because(ctx, err)
		// What is below may give up first, in words that say nothing of who it was. That
		// nobody could be connected to is another matter.
		if op := (*net.OpError)(nil); asked.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &op) {
			err = &stalled{r.URL.Host, time.Since(began).Round(10 * time.Millisecond)}
		}
		if s := (*stalled)(nil); t.mute != nil && errors.As(err, &s) {
			t.mute.Store(r.URL.Host, s)
		}
		return nil, err
	}
	answer.Body = &body{ReadCloser: answer.Body, asked: asked, ctx: ctx, cancel: cancel, timer: timer, stall: t.stall, why: why, pace: t.pace, broke: t.broke}
	return answer, nil
}

// because is err, or why ctx was ended by us.
func because(ctx context.Context, err error) error {
	var s *stalled
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}

// body of an answer.
type body struct {
	io.ReadCloser
	asked, ctx context.Context //nolint:containedctx // of the request that it answers
	cancel     context.CancelCauseFunc
	timer      *time.Timer
	stall      time.Duration
	why        error
	pace       *rate.Limiter
	broke      *atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.pace != nil {
		p = p[:min(len(p), paceAtOnce)]
	}
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		if b.broke != nil {
			b.broke.Store(true)
		}
		err = because(b.ctx, err)
	}
	if b.pace != nil && n > 0 {
		if werr := b.pace.WaitN(b.asked, n); werr != nil && err == nil {
			err = werr
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
