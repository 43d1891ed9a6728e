package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

// said are the events about a subject, and changes reports what change makes of the
// instance of the hostile core.
func said(t *testing.T, c *core.Core, subject string) (out []string) {
	t.Helper()
	for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
		if e.Subject == subject {
			out = append(out, e.What)
		}
	}
	return out
}

func changed(c *core.Core, t *testing.T, change func(*wire.Reported)) {
	t.Helper()
	cl := c.M.Clusters["good"]
	rep := *cl.Seen["app.web.0"]
	change(&rep)
	from := cl.Inbox.Ack()
	clusters.OnReport(t.Context(), c, "good", wire.Report{
		V: wire.Version, From: from, To: wire.Rev{Inc: from.Inc, N: from.N + 1},
		Changes: []wire.Change{{Key: rep.ID, Value: roottest.JSON(t, rep)}},
	})
	roottest.Pass(t, c)
}

// Why an instance is not ready, how it ended and that its worker is silent are said at the
// root: in what its application lacks, and in events.
func TestWhatIsSaidOfAnInstance(t *testing.T) {
	c := roottest.NewRunningCore(t)
	const found = `readiness http /healthz: 503 "no data" (60 of 60)`
	changed(c, t, func(rep *wire.Reported) { rep.Ready, rep.Reason = false, found })
	if v := status.Application(c.M, c.M.Apps["app"]); v.Holds ||
		!strings.HasSuffix(v.Message, "app.web.0 is not ready: "+found) {
		t.Errorf("what it lacks: %+v", v)
	}
	changed(c, t, func(rep *wire.Reported) { rep.Ready, rep.Reason = true, "" })
	changed(c, t, func(rep *wire.Reported) {
		rep.Restarts, rep.LastExit = 1, &wire.Exit{Code: 137, Signal: "KILL", At: time.Unix(1000, 0)}
	})
	changed(c, t, func(rep *wire.Reported) { rep.Unreachable = true })
	want := []string{
		"not ready: " + found, "ready", "exited: killed by signal KILL; started again, restart 1",
		"unreachable: its worker does not report",
	}
	if got := said(t, c, "instance/app.web.0"); len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// What its cluster says has failed is said of the service: as long as it is about what was
// applied last, and also when the instance was given back.
func TestWhatHasFailedIsSaid(t *testing.T) {
	c := roottest.NewRunningCore(t)
	app := c.M.Apps["app"]
	fails := func(revision uint64) func(*wire.Reported) {
		return func(rep *wire.Reported) {
			rep.Ready, rep.State, rep.Revision, rep.Failed = false, wire.Failed, revision,
				"exit code 3, gave up here after 5 restarts in a row"
		}
	}
	const want = "app.web.0: exit code 3, gave up here after 5 restarts in a row"
	changed(c, t, fails(1))
	if got := status.Service(c.M, app, "web").Failed; got != want {
		t.Errorf("failed: %q", got)
	}
	changed(c, t, fails(0))
	if got := status.Service(c.M, app, "web").Failed; got != "" {
		t.Errorf("another revision: %q", got)
	}
	app.Applied = time.Now().Add(-time.Minute)
	changed(c, t, func(rep *wire.Reported) {
		rep.State, rep.Revision, rep.Reason = wire.Requested, 1,
			"1 worker: 1 is avoided; it failed because: exit code 3, gave up here after 5 restarts in a row"
	})
	if i := c.M.Insts["app.web.0"]; i.Cluster != "" {
		t.Fatalf("it was not given back: %+v", i)
	}
	if got := status.Service(c.M, app, "web").Failed; got != want {
		t.Errorf("given back: %q", got)
	}
	app.Applied = time.Now() // another revision, of which nobody knows anything yet
	if got := status.Service(c.M, app, "web").Failed; got != "" {
		t.Errorf("given back before it was applied: %q", got)
	}
}

// A worker that is not heard of is an event of its cluster at the root, with what it
// affects, and without its name unless the cluster tells it. What it affects does not hold.
func TestALostWorkerIsSaidOfItsCluster(t *testing.T) {
	for worker, named := range map[string]string{"": "a worker", "w1": "worker w1"} {
		c := roottest.NewRunningCore(t)
		changed(c, t, func(rep *wire.Reported) { rep.Worker, rep.Incarnation = worker, 1 })
		changed(c, t, func(rep *wire.Reported) { rep.Unreachable = true })
		if v := status.Application(c.M, c.M.Apps["app"]); v.Holds || v.Services[0].Ready != 0 ||
			!strings.HasSuffix(v.Message, "app.web.0 is unreachable: its worker does not report") {
			t.Errorf("%q: while it is unreachable: %+v", worker, v)
		}
		changed(c, t, func(rep *wire.Reported) {
			rep.Unreachable, rep.Ready, rep.State, rep.Incarnation = false, false, wire.WorkerScheduled, 2
		})
		changed(c, t, func(rep *wire.Reported) { rep.Ready, rep.State = true, wire.Running })
		got := said(t, c, "cluster/good")
		if got = got[max(0, len(got)-2):]; len(got) < 2 ||
			got[0] != named+" does not report: 1 instance affected (app.web.0)" ||
			!strings.HasPrefix(got[1], "1 instance affected (app.web.0), replaced in ") {
			t.Errorf("%q: events %q", worker, got)
		}
		if v := status.Application(c.M, c.M.Apps["app"]); !v.Holds {
			t.Errorf("%q: %+v", worker, v)
		}
	}
}
