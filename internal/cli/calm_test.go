package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// A crash loop is ready for a moment after each start. That is no success for who waits.
func TestAMomentBetweenRestartsIsNoSuccess(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	a := &app{err: t.Output(), opts: Options{Now: func() time.Time { return now }}}
	list := func(restarts int) []wire.InstanceView {
		return []wire.InstanceView{{Instance: wire.Instance{ID: "crash.loop.0", AllRestarts: restarts}}}
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
