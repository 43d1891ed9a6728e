package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// beat is the grid, by the clock of the machine, on which reports of those lie that have
// nothing to say. Who hears thousands of them wakes a few times a second for many, instead
// of for each: most of what one costs is waking. Clocks that differ only spread them.
const beat = 250 * time.Millisecond

// onBeat shortens d so that it ends on the grid, if one of its points lies within d.
func onBeat(now time.Time, d time.Duration) time.Duration {
	if left := now.Add(d).Truncate(beat).Sub(now); left > 0 {
		return left
	}
	return d
}

// oneWay is a one-way report of which it is not known yet whether the server's machine has
// it. That takes as long as its kernel waits with an acknowledgement: up to 40 ms.
type oneWay struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // how that ended, once done is closed
}

// send makes a one-way report. What becomes of it comes from sent.
func (r *lowerRun) send(ctx context.Context, rep wire.Report) error {
	b, err := json.Marshal(rep)
	if err != nil {
		return fmt.Errorf("encoding for %s: %w", r.Subjects.Report, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	s := &oneWay{cancel: cancel, done: make(chan struct{})}
	go func() { // giveUp and arrived wait for it
		defer close(s.done)
		s.err = r.Conn.Send(ctx, r.Subjects.Report, b)
	}()
	r.sending = s
	return nil
}

// sent is closed when the one-way report that is on its way has ended; nil: there is none.
func (r *lowerRun) sent() <-chan struct{} {
	if r.sending == nil {
		return nil
	}
	return r.sending.done
}

// arrived ends a report after sent, and says why it did not arrive.
func (r *lowerRun) arrived() error {
	err := r.sending.err
	r.sending.cancel()
	r.sending = nil
	if err != nil {
		r.needStatus = true
		return fmt.Errorf("telling %s: %w", r.Subjects.Report, err)
	}
	return nil
}

// giveUp does not wait any longer for a one-way report. It said nothing that the next report
// does not say.
func (r *lowerRun) giveUp() {
	if r.sending == nil {
		return
	}
	r.sending.cancel()
	<-r.sending.done
	r.sending = nil
}
