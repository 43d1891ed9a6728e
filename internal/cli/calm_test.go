package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// A crash loop is ready for a moment after each start. That is no success for who waits.
func TestAMomentBetweenRestartsIsNoSuccess(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	a := &app{err: t.Output(), opts: Options{Now: func() time.Time { return now }}}
	list := func(restarts int) []apiv1.InstanceView {
		return []apiv1.InstanceView{{Instance: wire.Instance{ID: "crash.loop.0", RunHistory: wire.RunHistory{AllRestarts: restarts}}}}
	}
	p := newProgress(a)
	p.skip(list(7)) // of before
	for i, s := range []struct {
		after    time.Duration
		restarts int
		want     bool
	}{{0, 7, true}, {0, 8, false}, {calmFor - 1, 8, false}, {0, 9, false}, {calmFor - 1, 9, false}, {1, 9, true}} {
		now = now.Add(s.after)
		p.show(list(s.restarts))
		if got := p.calm(); got != s.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// Who waited for instances that restart again and again is told so.
func TestTimedOut(t *testing.T) {
	ready := &apiv1.AppView{Holds: true}
	for name, c := range map[string]struct {
		v    *apiv1.AppView
		calm bool
		want string
	}{
		"not ready": {&apiv1.AppView{}, false, "after 2m"},
		"not heard": {nil, true, "after 2m"},
		"restarts": {ready, false,
			"after 2m: all of it is ready for moments, and instances are restarted again and again"},
		"ready since": {ready, true, "after 2m"},
	} {
		if got := timedOut(2*time.Minute, c.v, c.calm); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
