package rest

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
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

// sessions are those that somebody goes on with by way of a server. Each step of one is
// asked for, so that nothing can be done with it by somebody who may not any more; what
// goes on at its worker by itself is ended by this, as soon as a right of its owner ends.
type sessions struct {
	mu     sync.Mutex
	open   map[string]*session // guarded by mu
	closed bool                // guarded by mu: none begins any more
	work   sync.WaitGroup      // one goroutine for each
}

type session struct {
	last time.Time     // when a step of it was answered; guarded by sessions.mu
	gone chan struct{} // closed when it was ended by its owner
}

type principalKey struct{}

// goesOn notes that a step of a session was answered for the caller.
func (s *Server) goesOn(ctx context.Context, id string) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if !ok || id == "" || p.Ended == nil && p.Left <= 0 {
		return // nothing of it ends
	}
	now := time.Now()
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if x := s.sessions.open[id]; x != nil {
		x.last = now
		return
	}
	if s.sessions.closed || len(s.sessions.open) >= maxSessions {
		return
	}
	if s.sessions.open == nil {
		s.sessions.open = map[string]*session{}
	}
	x := &session{last: now, gone: make(chan struct{})}
	s.sessions.open[id] = x
	s.sessions.work.Go(func() { s.watchSession(id, x, p) })
}

// hasEnded notes that the owner of a session has ended it.
func (s *Server) hasEnded(id string) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	if x := s.sessions.open[id]; x != nil {
		close(x.gone)
		delete(s.sessions.open, id)
	}
}

// watchSession ends a session when a right of its owner ends.
func (s *Server) watchSession(id string, x *session, p Principal) {
	defer func() {
		s.sessions.mu.Lock()
		defer s.sessions.mu.Unlock()
		if s.sessions.open[id] == x {
			delete(s.sessions.open, id)
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
		case <-s.draining:
			return // who goes on with it does so elsewhere, or after a restart
		case <-x.gone:
			return
		case <-idle.C:
			s.sessions.mu.Lock()
			left := sessionIdle - time.Since(x.last)
			s.sessions.mu.Unlock()
			if left <= 0 {
				return
			}
			idle.Reset(left)
			continue
		case <-p.Ended:
		case <-expired:
		}
		s.endSession(id, x, p)
		return
	}
}

// endSession tells the worker of a session that it is over.
func (s *Server) endSession(id string, x *session, p Principal) {
	ctx, cancel := context.WithTimeout(access.With(context.Background(), p.Who), sessionIdle)
	defer cancel()
	s.log.Info("a session is ended: the rights of who has it have changed", "who", p.Name)
	for {
		once, done := context.WithTimeout(ctx, endWithin)
		_, err := waiting(once, s, func(ctx context.Context) (wire.ExecAnswer, error) {
			return s.backend.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoEnd, Session: id})
		})
		done()
		if err == nil || asProblem(err).Status == 404 {
			return
		}
		select {
		case <-s.draining:
			return
		case <-x.gone:
			return
		case <-ctx.Done():
			s.log.Warn("a session could not be ended; its worker ends what nobody goes on with", "who", p.Name, "error", err)
			return
		case <-time.After(endPause):
		}
	}
}

// endSessions waits for all that is watched; draining has been closed.
func (s *Server) endSessions() {
	s.sessions.mu.Lock()
	s.sessions.closed = true
	s.sessions.mu.Unlock()
	s.sessions.work.Wait()
}
