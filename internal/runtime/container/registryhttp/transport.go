package registryhttp

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
	// StallAfter is how long a registry may send nothing.
	StallAfter = 30 * time.Second
	// paceAtOnce is how much a bounded pull takes at once.
	paceAtOnce = 64 << 10
)

// Stalled is the error of a registry that sends nothing: one of the network, to be
// tried again. It does not say that it is a timeout: containerd would ask five times in
// a row, and nobody would read for all that time what is wrong.
type Stalled struct {
	Host  string
	After time.Duration
}

// Error implements error.
func (e *Stalled) Error() string { return fmt.Sprintf("%s sent nothing for %s", e.Host, e.After) }

// Timeout implements net.Error.
func (e *Stalled) Timeout() bool { return false }

// Temporary implements net.Error.
func (e *Stalled) Temporary() bool { return true }

var _ net.Error = (*Stalled)(nil)

// Transport gives up on registries that send nothing, and holds the pace of all pulls
// together.
type Transport struct {
	Next  http.RoundTripper
	Stall time.Duration
	Pace  *rate.Limiter // nil: not bounded
	Broke *atomic.Bool  // set where an answer does not end in order; nil: nobody asks
	Mute  *sync.Map     // host -> *Stalled, of this pull; nil: it is not kept
	Reach *Reach        // where it may connect to; nil: anywhere
}

// NewPace bounds bytes in a second; 0 is nil, no bound.
func NewPace(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), paceAtOnce)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.Mute != nil {
		// What asks once more in the same pull, by another path, would wait as long again.
		if why, ok := t.Mute.Load(r.URL.Host); ok {
			return nil, why.(*Stalled)
		}
	}
	asked, began := r.Context(), time.Now()
	ctx, cancel := context.WithCancelCause(asked)
	if t.Reach != nil {
		ctx = t.Reach.mark(ctx, r, t.Next)
	}
	why := &Stalled{r.URL.Host, t.Stall}
	timer := time.AfterFunc(t.Stall, func() { cancel(why) })
	answer, err := t.Next.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if err != nil {
		defer cancel(nil)
		err = because(ctx, err)
		// What is below may give up first, in words that say nothing of who it was. That
		// nobody could be connected to is another matter.
		if op := (*net.OpError)(nil); asked.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &op) {
			err = &Stalled{r.URL.Host, time.Since(began).Round(10 * time.Millisecond)}
		}
		if s := (*Stalled)(nil); t.Mute != nil && errors.As(err, &s) {
			t.Mute.Store(r.URL.Host, s)
		}
		return nil, err
	}
	answer.Body = &body{ReadCloser: answer.Body, asked: asked, ctx: ctx, cancel: cancel, timer: timer, stall: t.Stall,
		why: why, pace: t.Pace, broke: t.Broke}
	return answer, nil
}

// because is err, or why ctx was ended by us.
func because(ctx context.Context, err error) error {
	var s *Stalled
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
