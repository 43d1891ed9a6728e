package sessions

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// endings knows ends of sessions alone.
type endings struct {
	ended []time.Time
	err   error
}

func (e *endings) Exec(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	if q.Do == rpc.ExecDoEnd {
		e.ended = append(e.ended, time.Now())
	}
	return rpc.ExecAnswer{}, e.err
}

// sessionFor lets somebody go on with a session in virtual time.
func sessionFor(t *testing.T, p rest.Principal, err error, then func(s *Sessions, id string)) (after []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		begin, b := time.Now(), &endings{err: err}
		d := drain.New()
		s := New(b, d, slog.New(slog.DiscardHandler))
		p.Who = access.Who{Name: "user/bob"}
		s.GoesOn(p, "s.c.w.a.b.0")
		if then != nil {
			then(s, "s.c.w.a.b.0")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.mu.Lock()
		if len(s.open) != 0 {
			t.Errorf("still watched: %v", s.open)
		}
		s.mu.Unlock()
		d.Begin()
		s.Wait()
		for _, at := range b.ended {
			after = append(after, at.Sub(begin))
		}
	})
	return after
}

// A session ends with the token that it was begun with, is forgotten where nobody goes on
// with it, and is tried to end as long as it may be there.
func TestHowLongASessionIsWatched(t *testing.T) {
	if after := sessionFor(t, rest.Principal{Left: time.Minute}, nil, nil); len(after) != 1 || after[0] != time.Minute {
		t.Errorf("with a token of a minute: %v", after)
	}
	if after := sessionFor(t, rest.Principal{Left: time.Hour}, nil, nil); len(after) != 0 {
		t.Errorf("nobody went on with it: %v", after)
	}
	if after := sessionFor(t, rest.Principal{Left: 2 * time.Minute}, errors.New("away"), nil); len(after) < 80 ||
		after[len(after)-1] > 2*time.Minute+sessionIdle {
		t.Errorf("at a worker that is away: %d times", len(after))
	}
	if after := sessionFor(t, rest.Principal{Left: 2 * time.Minute}, nil,
		func(s *Sessions, id string) { s.HasEnded(id) }); len(after) != 0 {
		t.Errorf("its owner has ended it: %v", after)
	}
	if after := sessionFor(t, rest.Principal{}, nil, nil); len(after) != 0 {
		t.Errorf("of a right that does not end: %v", after)
	}
	on := func(s *Sessions, id string) {
		for range 4 {
			time.Sleep(2 * time.Minute)
			s.GoesOn(rest.Principal{Left: time.Hour}, id)
		}
	}
	if after := sessionFor(t, rest.Principal{Left: 9 * time.Minute}, nil, on); len(after) != 1 ||
		after[0] != 9*time.Minute {
		t.Errorf("with which somebody goes on: %v", after)
	}
}
