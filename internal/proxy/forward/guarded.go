package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1"
)

// guardedBody is a request body that survives a try in which it was not read, or not
// far: a transport closes the body of whatever fails, and may read it on for a while.
// What such a late read brings is kept for the next try as well. The server closes the
// body in the end. A nil one is a body that is not there.
type guardedBody struct {
	body  io.ReadCloser
	atEnd func() // called when all of it was read; may be nil

	mu      sync.Mutex
	change  *sync.Cond // on mu: of all below
	attempt int        // of tries
	kept    []byte     // what was read so far
	err     error      // that came after it
	over    bool       // more was read than is kept
	held    bool       // nothing that was read may be dropped now
	reading bool       // somebody waits for more of it
	// flow is how it came so far: Took is until its end, 0 as long as that has not come.
	began http1.Instant
	flow  http1.Flow
}

// came is how the body came so far.
func (b *guardedBody) came() http1.Flow {
	if b == nil {
		return http1.Flow{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flow
}

// maxReplay is how much of a body is kept for another try. A transport reads
// less than this before it writes the first byte.
const maxReplay = 64 << 10

var errNextTry = errors.New("the request is being sent elsewhere")

func newGuardedBody(body io.ReadCloser) *guardedBody {
	b := &guardedBody{body: body, began: http1.Now()}
	b.change = sync.NewCond(&b.mu)
	return b
}

// try is the body for the next try, from its beginning; nil if part of it is gone.
func (b *guardedBody) try() io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.attempt++
	b.held = false
	b.change.Broadcast()
	return &bodyTry{b: b, attempt: b.attempt}
}

// bodyTry is a guardedBody as one try reads it.
type bodyTry struct {
	b       *guardedBody
	attempt int
	at      int // how much of what is kept it has read
}

// Read implements io.Reader. One reads at a time.
func (t *bodyTry) Read(p []byte) (int, error) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.attempt != t.attempt:
			return 0, errNextTry
		case !b.over && t.at < len(b.kept):
			n := copy(p, b.kept[t.at:])
			t.at += n
			return n, nil
		case b.err != nil:
			return 0, b.err
		case !b.reading && (!b.held || len(b.kept) < maxReplay):
			return b.readLocked(t, p)
		}
		b.change.Wait() // for the read of the last try, or for a decision about this one
	}
}

// readLocked reads more of the body for a try, and gives b.mu free meanwhile.
func (b *guardedBody) readLocked(t *bodyTry, p []byte) (int, error) {
	b.reading = true
	b.mu.Unlock()
	since := http1.Now()
	n, err := b.body.Read(p)
	if b.atEnd != nil && errors.Is(err, io.EOF) {
		b.atEnd()
	}
	now := http1.Now()
	b.mu.Lock()
	b.reading, b.err = false, err
	b.flow.Bytes += int64(n)
	b.flow.Waited += now.Sub(since)
	if errors.Is(err, io.EOF) {
		b.flow.Took = now.Sub(b.began)
	}
	b.change.Broadcast()
	switch {
	case b.over:
	case len(b.kept)+n > maxReplay && b.attempt == t.attempt && !b.held:
		b.over, b.kept = true, nil
	default: // also what is more, where it came for who is not asked any more
		b.kept = append(b.kept, p[:n]...)
		t.at = len(b.kept)
	}
	return n, err
}

// Close implements io.Closer; it leaves the body open.
func (t *bodyTry) Close() error { return nil }

// unread says whether the body is all there for another try. If so it stays that until
// that try, or until it is let go.
func (b *guardedBody) unread() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = !b.over
	return b.held
}

// hold keeps the body repeatable in this try: no more than that of it is read until goOn,
// end, or http1.HoldLimit.
func (b *guardedBody) hold() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = !b.over
	attempt := b.attempt
	t := time.AfterFunc(http1.HoldLimit, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.attempt == attempt {
			b.goOnLocked()
		}
	})
	return func() { t.Stop() }
}

// goOn ends hold.
func (b *guardedBody) goOn() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.goOnLocked()
}

func (b *guardedBody) goOnLocked() {
	b.held = false
	b.change.Broadcast()
}

// letGo ends what unread began: there is no other try.
func (b *guardedBody) letGo() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.goOnLocked()
}

// failed says whether the client broke off.
func (b *guardedBody) failed() bool { return b.failure() != nil }

// failure is the error with which the body ended early; nil: it did not.
func (b *guardedBody) failure() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// malformedBody says whether a body ended because its framing is malformed, and not because
// its client left or took too long. net/http has no type for it, so all others are excluded.
func malformedBody(err error) bool {
	var network net.Error
	for _, other := range []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, net.ErrClosed, io.ErrClosedPipe,
		http.ErrBodyReadAfterClose,
		context.Canceled, context.DeadlineExceeded, errLargeBody, errSlowBody, errNextTry,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return err != nil && !errors.As(err, &network)
}
