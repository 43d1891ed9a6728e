package objects

import (
	"context"
	"sync"
	"time"

	// singleflight joins concurrent requests for the same object.
	"golang.org/x/sync/singleflight"

	"github.com/verge-edge/verge/internal/bus"
)

// fetchTimeout bounds asking the tier above for one object as a whole.
const fetchTimeout = 30 * time.Minute

// ErrClosed is the error of what is asked after Close.
var ErrClosed = bus.ErrClosed

// Once asks for an object once for all who want it at a time. The zero value works.
type Once struct {
	group singleflight.Group

	mu      sync.Mutex // guards below
	cancels map[string]context.CancelFunc
	closed  bool
	asking  sync.WaitGroup
}

// Ask returns what ask returns. ask continues if its first caller has left, since others may wait
// for it. The error is ErrClosed after Close, or that of ctx if it is done first.
func (o *Once) Ask(ctx context.Context, key string, ask func(context.Context) (stale bool, err error)) (stale bool,
	err error) {
	got := o.group.DoChan(key, func() (any, error) {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		if !o.begin(key, cancel) {
			return false, ErrClosed
		}
		defer o.end(key)
		return ask(long)
	})
	select {
	case r := <-got:
		return r.Val.(bool), r.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (o *Once) begin(key string, cancel context.CancelFunc) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	if o.cancels == nil {
		o.cancels = map[string]context.CancelFunc{}
	}
	o.cancels[key] = cancel
	o.asking.Add(1)
	return true
}

func (o *Once) end(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.cancels, key)
	o.asking.Done()
}

// Close ends what is being asked, and waits for that.
func (o *Once) Close() {
	o.mu.Lock()
	o.closed = true
	for _, cancel := range o.cancels {
		cancel()
	}
	o.mu.Unlock()
	o.asking.Wait()
}
