package life

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

func TestNews(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	running := wire.Instance{ID: "a.b.0", State: wire.Running, Incarnation: 1, Conditions: wire.Conditions{Ready: true}}
	with := func(change func(*wire.Instance)) wire.Instance {
		i := Clone(running)
		change(&i)
		return i
	}
	unready := func(reason string) wire.Instance {
		return with(func(i *wire.Instance) { i.Ready, i.Reason = false, reason })
	}
	exited := func(reason string, restarts int) wire.Instance {
		return with(func(i *wire.Instance) {
			i.Ready, i.Reason, i.Restarts = false, reason, restarts
			i.LastExit = &wire.Exit{Code: 137, Signal: "KILL", At: at}
		})
	}
	caused := exited("OOM, tried again soon", 0)
	caused.Cause = wire.CauseExited
	unrelated := exited("killed by signal KILL", 0)
	unrelated.Cause = wire.CauseReadiness
	failed := exited("killed by signal KILL, gave up here after 5 restarts in a row", 5)
	failed.State = wire.Failed
	failed.History = []wire.Transition{{To: wire.Failed, At: at, Why: failed.Reason}}
	gaveUp := exited("gave up", 5)
	gaveUp.State = wire.Failed
	gaveUp.History = []wire.Transition{{To: wire.Failed, At: at, Why: "gave up", Cause: wire.CauseExited}}
	checked := exited("liveness tcp port 80: connection refused (3 of 3), restart 1 of 5 in 180ms", 0)
	checked.LastExit.Why = "liveness tcp port 80: connection refused (3 of 3)"
	checked.Cause = wire.CauseExited
	const check = `readiness http /healthz: 503 "no data" (3 of 60)`
	for name, c := range map[string]struct {
		old, now wire.Instance
		want     []string
	}{
		"the same":            {running, running, nil},
		"a check fails":       {running, unready(check), []string{"not ready: " + check}},
		"it fails more often": {unready(check), unready(`readiness http /healthz: 503 "still no data" (60 of 60)`), nil},
		"it fails otherwise":  {unready(check), unready(`readiness http /healthz: port 80: connection refused (60 of 60)`), []string{"not ready: readiness http /healthz: port 80: connection refused (60 of 60)"}},
		"it passes":           {unready(check), running, []string{"ready"}},
		"an older worker":     {running, unready(""), []string{"not ready"}},
		"by its cause":        {running, caused, []string{"exited: OOM, tried again soon"}},
		"not by its text":     {running, unrelated, []string{"exited: killed by signal KILL", "not ready: killed by signal KILL"}},
		"a check ends it":     {running, checked, []string{"exited: " + checked.Reason}},
		"a step by its cause": {exited("", 5), gaveUp, nil},
		"a kill":              {running, exited("killed by signal KILL, restart 1 of 5 in 180ms", 0), []string{"exited: killed by signal KILL, restart 1 of 5 in 180ms"}},
		"told again in another zone": {exited("", 1), with(func(i *wire.Instance) {
			i.Ready, i.Restarts, i.LastExit = false, 1, &wire.Exit{Code: 137, Signal: "KILL", At: at.In(time.FixedZone("", 7200))}
		}), nil},
		"a kill and a restart": {running, exited("", 1), []string{"exited: killed by signal KILL; started again, restart 1"}},
		"a restart after that": {exited("", 0), exited("", 1), []string{"started again, restart 1"}},
		"its history says it":  {exited("", 5), failed, nil},
		"an update":            {running, with(func(i *wire.Instance) { i.Ready, i.Incarnation = false, 2 }), nil},
		"its worker is silent": {running, with(func(i *wire.Instance) { i.Unreachable, i.Worker = true, "w1" }), []string{"unreachable: its worker w1 does not report"}},
		"nobody says which":    {running, with(func(i *wire.Instance) { i.Unreachable = true }), []string{"unreachable: its worker does not report"}},
		"its worker is back":   {with(func(i *wire.Instance) { i.Unreachable = true }), running, []string{"reachable again"}},
		"it drains":            {running, with(func(i *wire.Instance) { i.Ready, i.Draining = false, true }), nil},
		"its startup check": {with(func(i *wire.Instance) { i.State, i.Ready = wire.WorkerScheduled, false }), with(func(i *wire.Instance) {
			i.State, i.Ready, i.Reason = wire.WorkerScheduled, false, "startup tcp port 80: connection refused (9 of 9)"
		}), []string{"not ready: startup tcp port 80: connection refused (9 of 9)"}},
		"another incarnation": {exited("", 3), with(func(i *wire.Instance) { i.Incarnation = 2 }), []string{"ready"}},
	} {
		var got []string
		for _, e := range News(&c.old, &c.now) {
			got = append(got, e.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
