package stream

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// restAfter is how long after the last write the log's clock is stopped: longer
// than the server keeps what was read or written in its cache (10 s), so that the
// cache is given back before.
const restAfter = 30 * time.Second

// rester stops the server's clock of access times while its log is not used.
// Every open file store has it tick ten times a second, only to know when to
// drop its cache: four fifths of what an idle orchestrator costs. The clock
// counts its users; while a store rests it is not counted.
type rester struct {
	mu sync.Mutex
	// Guarded by mu.
	timer   *time.Timer
	resting bool
	ended   bool
}

func newRester() *rester {
	r := &rester{}
	r.timer = time.AfterFunc(restAfter, r.rest)
	return r
}

// wake makes the clock tick, before the log is used.
func (r *rester) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resting {
		ats.Register()
		r.resting = false
	}
	if !r.ended {
		r.timer.Reset(restAfter)
	}
}

func (r *rester) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resting || r.ended {
		return
	}
	// The clock panics, in a consistent state, when it is given back more often
	// than taken: the server has closed the file store by itself.
	defer func() {
		if recover() != nil {
			r.ended = true
		}
	}()
	ats.Unregister()
	r.resting = true
}

// abandon: the server has closed the file store by itself and counted it out.
func (r *rester) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.timer.Stop()
}

// end leaves the clock as the file store expects it when it closes.
func (r *rester) end() {
	r.wake()
	r.abandon()
}
