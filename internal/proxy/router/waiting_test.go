package router

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Where all that is left is late, there is no use in going elsewhere behind the same
// address.
func TestNothingElseBehindALateAddress(t *testing.T) {
	t.Parallel()
	a := testServices(t)
	same := []wire.Endpoint{behind("app.web.0", "b", "127.0.0.1:1"), behind("app.web.1", "b", "127.0.0.1:1")}
	for name, c := range map[string]struct {
		endpoints []wire.Endpoint
		more      bool
	}{
		"one worker":  {same, false},
		"two workers": {append(same[:1:1], behind("app.web.1", "c", "127.0.0.1:2")), true},
	} {
		testRoutes(a, []wire.Route{testRoute(c.endpoints...)})
		s := a.Find("app.web")
		for _, e := range s.All() {
			e.late.Add(1)
		}
		p := Picker{Service: s, Request: true}
		e, more := p.Next()
		if e == nil || more != c.more {
			t.Errorf("%s: %v, more: %v", name, e, more)
		}
		for _, e := range s.All() {
			e.late.Add(-1)
		}
	}
}

func TestLookDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		looked, life time.Time
		due          bool
	}{
		"never looked at":                           {time.Time{}, ago(0), true},
		"long ago, and it answers":                  {ago(lookEvery), ago(0), true},
		"a while ago, and it answers":               {ago(lookEvery - 1), ago(LookAfter - 1), false},
		"a while ago, answered since, silent now":   {ago(LookAfter + 1), ago(LookAfter), true},
		"a while ago, nothing since":                {ago(lookEvery - 1), ago(lookEvery), false},
		"a moment ago, and silent for longer again": {ago(LookAfter - 1), ago(LookAfter), false},
	} {
		if due := lookDue(now, c.looked, c.life); due != c.due {
			t.Errorf("%s: %v", name, due)
		}
	}
}
