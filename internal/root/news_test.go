package root

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// said are the events about a subject, and changes reports what change makes of the
// instance of the hostile core.
func said(t *testing.T, c *core, subject string) (out []string) {
	t.Helper()
	for _, e := range c.events.After(t.Context(), 0, 0).Events {
		if e.Subject == subject {
			out = append(out, e.What)
		}
	}
	return out
}

func (c *core) changed(t *testing.T, change func(*wire.Reported)) {
	t.Helper()
	cl := c.m.clusters["good"]
	rep := *cl.seen["app.web.0"]
	change(&rep)
	from := cl.inbox.Ack()
	c.onReport(t.Context(), "good", wire.Report{
		V: wire.Version, From: from, To: wire.Rev{Inc: from.Inc, N: from.N + 1},
		Changes: []wire.Change{{Key: rep.ID, Value: encoded(t, rep)}},
	})
	pass(t, c)
}

// Why an instance is not ready, how it ended and that its worker is silent are said at the
// root: in what its application lacks, and in events.
func TestWhatIsSaidOfAnInstance(t *testing.T) {
	c := newHostileCore(t)
	const found = `readiness http /healthz: 503 "no data" (60 of 60)`
	c.changed(t, func(rep *wire.Reported) { rep.Ready, rep.Reason = false, found })
	if v := c.m.appView(c.m.apps["app"]); v.Holds || !strings.HasSuffix(v.Message, "app.web.0 is not ready: "+found) {
		t.Errorf("what it lacks: %+v", v)
	}
	c.changed(t, func(rep *wire.Reported) { rep.Ready, rep.Reason = true, "" })
	c.changed(t, func(rep *wire.Reported) {
		rep.Restarts, rep.LastExit = 1, &wire.Exit{Code: 137, Signal: "KILL", At: time.Unix(1000, 0)}
	})
	c.changed(t, func(rep *wire.Reported) { rep.Unreachable = true })
	want := []string{
		"not ready: " + found, "ready", "exited: killed by signal KILL; started again, restart 1",
		"unreachable: its worker is not heard of",
	}
	if got := said(t, c, "instance/app.web.0"); len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
