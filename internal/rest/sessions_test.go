package rest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// endings is a Backend that knows ends of sessions alone.
type endings struct {
	Backend
	ended []time.Time
	err   error
}

func (e *endings) Exec(_ context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	if q.Do == wire.ExecDoEnd {
		e.ended = append(e.ended, time.Now())
	}
	return wire.ExecAnswer{}, e.err
}

// sessionFor lets somebody go on with a session in virtual time.
func sessionFor(t *testing.T, p Principal, err error, then func(s *Server, id string)) (after []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		begin, b := time.Now(), &endings{err: err}
		s := &Server{backend: b, log: slog.New(slog.DiscardHandler), draining: make(chan struct{})}
		p.Who = access.Who{Name: "user/bob"}
		ctx, done := p.bound(t.Context())
		s.goesOn(ctx, "s.c.w.a.b.0")
		done()
		if then != nil {
			then(s, "s.c.w.a.b.0")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.sessions.mu.Lock()
		if len(s.sessions.open) != 0 {
			t.Errorf("still watched: %v", s.sessions.open)
		}
		s.sessions.mu.Unlock()
		close(s.draining)
		s.endSessions()
		for _, at := range b.ended {
			after = append(after, at.Sub(begin))
		}
	})
	return after
}

// A session ends with the token that it was begun with, is forgotten where nobody goes on
// with it, and is tried to end as long as it may be there.
func TestHowLongASessionIsWatched(t *testing.T) {
	if after := sessionFor(t, Principal{Left: time.Minute}, nil, nil); len(after) != 1 || after[0] != time.Minute {
		t.Errorf("with a token of a minute: %v", after)
	}
	if after := sessionFor(t, Principal{Left: time.Hour}, nil, nil); len(after) != 0 {
		t.Errorf("nobody went on with it: %v", after)
	}
	if after := sessionFor(t, Principal{Left: 2 * time.Minute}, errors.New("away"), nil); len(after) < 80 || after[len(after)-1] > 2*time.Minute+sessionIdle {
		t.Errorf("at a worker that is away: %d times", len(after))
	}
	if after := sessionFor(t, Principal{Left: 2 * time.Minute}, nil, func(s *Server, id string) { s.hasEnded(id) }); len(after) != 0 {
		t.Errorf("its owner has ended it: %v", after)
	}
	if after := sessionFor(t, Principal{}, nil, nil); len(after) != 0 {
		t.Errorf("of a right that does not end: %v", after)
	}
	on := func(s *Server, id string) {
		ctx, done := Principal{Left: time.Hour}.bound(context.Background())
		defer done()
		for range 4 {
			time.Sleep(2 * time.Minute)
			s.goesOn(ctx, id)
		}
	}
	if after := sessionFor(t, Principal{Left: 9 * time.Minute}, nil, on); len(after) != 1 || after[0] != 9*time.Minute {
		t.Errorf("with which somebody goes on: %v", after)
	}
}
