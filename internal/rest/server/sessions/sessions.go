// Package sessions ends sessions (exec, port forwarding, copies) as soon as a right of their
// owner ends.
package sessions

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// maxSessions are watched at a time; what is more ends as its worker ends what nobody
	// goes on with.
	maxSessions = 4096
	// sessionIdle is longer than a worker keeps a session with which nobody goes on.
	sessionIdle = 3 * time.Minute
	// A worker that cannot be reached is told again, for as long as the session may be there.
	endPause  = 2 * time.Second
	endWithin = 10 * time.Second
)

// Sessions are those that somebody goes on with by way of a server. Each step of one is
// asked for, so that nothing can be done with it by somebody who may not any more; what
// goes on at its worker by itself is ended by this, as soon as a right of its owner ends.
type Sessions struct {
	exec  rest.Exec
	drain *drain.Drain
	log   *slog.Logger

	mu     sync.Mutex
	open   map[string]*session // guarded by mu
	closed bool                // guarded by mu: none begins any more
	work   sync.WaitGroup      // one goroutine for each
}

type session struct {
	last time.Time     // when a step of it was answered; guarded by Sessions.mu
	gone chan struct{} // closed when it was ended by its owner
}

// New has no sessions. exec may be nil: there are none then.
func New(exec rest.Exec, d *drain.Drain, log *slog.Logger) *Sessions {
	return &Sessions{exec: exec, drain: d, log: log}
}

// GoesOn notes that a step of a session was answered for somebody.
func (s *Sessions) GoesOn(p rest.Principal, id string) {
	if id == "" || p.Ended == nil && p.Left <= 0 {
		return // nothing of it ends
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[id]; x != nil {
		x.last = now
		return
	}
	if s.closed || len(s.open) >= maxSessions {
		return
	}
	if s.open == nil {
		s.open = map[string]*session{}
	}
	x := &session{last: now, gone: make(chan struct{})}
	s.open[id] = x
	s.work.Go(func() { s.watch(id, x, p) })
}

// HasEnded notes that the owner of a session has ended it.
func (s *Sessions) HasEnded(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.open[id]; x != nil {
		close(x.gone)
		delete(s.open, id)
	}
}

// watch ends a session when a right of its owner ends.
func (s *Sessions) watch(id string, x *session, p rest.Principal) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[id] == x {
			delete(s.open, id)
		}
	}()
	var expired <-chan time.Time
	if p.Left > 0 {
		t := time.NewTimer(p.Left)
		defer t.Stop()
		expired = t.C
	}
	idle := time.NewTimer(sessionIdle)
	defer idle.Stop()
	for {
		select {
		case <-s.drain.Begun():
			return // who goes on with it does so elsewhere, or after a restart
		case <-x.gone:
			return
		case <-idle.C:
			s.mu.Lock()
			left := sessionIdle - time.Since(x.last)
			s.mu.Unlock()
			if left <= 0 {
				return
			}
			idle.Reset(left)
			continue
		case <-p.Ended:
		case <-expired:
		}
		s.end(id, x, p)
		return
	}
}

// end tells the worker of a session that it is over.
func (s *Sessions) end(id string, x *session, p rest.Principal) {
	ctx, cancel := context.WithTimeout(access.With(context.Background(), p.Who), sessionIdle)
	defer cancel()
	s.log.Info("a session is ended: the rights of who has it have changed", "who", p.Name)
	for {
		once, done := context.WithTimeout(ctx, endWithin)
		_, err := drain.Hold(once, s.drain, func(ctx context.Context) (rpc.ExecAnswer, error) {
			return s.exec.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: id})
		})
		done()
		if err == nil || rest.ProblemOf(err).Status == http.StatusNotFound {
			return
		}
		select {
		case <-s.drain.Begun():
			return
		case <-x.gone:
			return
		case <-ctx.Done():
			s.log.Warn("a session could not be ended; its worker ends idle sessions", "who", p.Name, "error", err)
			return
		case <-time.After(endPause):
		}
	}
}

// Wait waits for all that is watched; the drain has begun.
func (s *Sessions) Wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}
