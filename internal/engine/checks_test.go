package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// checked is an order with a startup and a liveness check beside its readiness.
func checked() wire.Order {
	o := order(0, 1, 100)
	o.Spec.Startup = &api.Check{HTTP: &api.HTTPCheck{Path: "/up"}, Interval: 2e9, Failures: 3}
	o.Spec.Liveness = &api.Check{HTTP: &api.HTTPCheck{Path: "/alive"}, Interval: 2e9, Failures: 3}
	return o
}

func TestStartupComesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.prober.setOf(health.Startup, errors.New("status 503"))
		r.apply(checked())
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Why != "starting" || s.PID == 0 || s.Ready {
			t.Fatalf("after the start: %+v", s)
		}
		after(4 * time.Second)
		if s := r.status(web0); s.Phase != wire.PhasePending ||
			!strings.HasPrefix(s.Why, "startup http /up: status 503 (") || s.Ready {
			t.Errorf("while it starts: %+v", s)
		}
		if n, m := r.prober.countOf(health.Readiness), r.prober.countOf(health.Liveness); n+m != 0 {
			t.Errorf("%d probes of readiness and %d of liveness before it has started", n, m)
		}
		if _, err := r.e.Target(web0, "http"); err == nil {
			t.Error("requests would be sent to it")
		}
		// Its logs are kept within bounds from its first line on.
		if ids, _ := r.e.board.Running(); !slices.Contains(ids, web0) {
			t.Error("it is not among what runs")
		}
		// Another engine goes on with it.
		r.stop()
		r.start()
		if s := r.status(web0); s.Phase != wire.PhasePending || r.driver.starts(web0) != 1 {
			t.Fatalf("adopted while it starts: %+v", s)
		}
		r.prober.setOf(health.Startup, nil)
		after(time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || !s.Ready || s.Why != "" {
			t.Errorf("after its start: %+v", s)
		}
		// It is not asked again, by another engine neither.
		r.prober.setOf(health.Startup, errors.New("status 503"))
		before := r.prober.countOf(health.Startup)
		r.stop()
		r.start()
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || !s.Ready || r.prober.countOf(health.Startup) != before {
			t.Errorf("adopted after its start: %+v", s)
		}
		// But after a restart it is.
		r.one(web0).end(1)
		after(3 * time.Second)
		if s := r.status(web0); s.Phase != wire.PhasePending ||
			!strings.HasPrefix(s.Why, "startup http /up: status 503 (") || s.Restarts != 1 {
			t.Errorf("started again: %+v", s)
		}
	})
}

func TestFailedStartupIsAFailedStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.prober.setOf(health.Startup, errors.New("status 503"))
		o := checked()
		most := 1
		o.Spec.Restart.MaxRestarts = &most
		r.apply(o)
		first := r.one(web0)
		after(5 * time.Second)
		if first.over() {
			t.Fatal("ended before its time was over")
		}
		after(2500 * time.Millisecond)
		if signals, killed, _ := first.seen(); !slices.Equal(signals, []string{"TERM"}) || killed {
			t.Errorf("signals %v, killed %v", signals, killed)
		}
		s := r.status(web0)
		if s.LastExit == nil || s.LastExit.Why != "startup http /up: status 503 (20 of 20)" || s.Restarts != 1 {
			t.Errorf("after the first: %+v, %+v", s, s.LastExit)
		}
		after(time.Minute)
		if s = r.status(web0); s.Phase != wire.PhaseExited ||
			!strings.Contains(s.Why, "startup http /up: status 503 (20 of 20), gave up here after 1 restarts") {
			t.Errorf("after the last: %+v", s)
		}
		// A start may take longer than a calm run, and is none.
		o = checked()
		o.Incarnation, o.Spec.Startup.Failures, o.Spec.Restart.MaxRestarts = 2, 100, &most
		r.apply(o)
		after(10 * time.Minute)
		if s = r.status(web0); s.Phase != wire.PhaseExited || s.Restarts != 1 {
			t.Errorf("slow starts: %+v", s)
		}
	})
}

func TestLivenessRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := checked()
		o.Spec.Stop = api.Stop{Signal: "INT", Grace: 5e9}
		r.apply(o)
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || !s.Ready {
			t.Fatalf("%+v", s)
		}
		if n := r.prober.countOf(health.Liveness); n < 28 || n > 30 {
			t.Errorf("%d probes of liveness in a minute", n)
		}
		busy := r.router.setBusy(web0) // nobody waits for its connections
		defer busy()
		first := r.one(web0)
		first.ignoreSignals()
		r.prober.setOf(health.Liveness, errors.New("status 500"))
		after(7 * time.Second)
		if signals, killed, _ := first.seen(); !slices.Equal(signals, []string{"INT"}) || killed {
			t.Fatalf("signals %v, killed %v", signals, killed)
		}
		if s := r.status(web0); s.Ready || s.Why != "being ended: liveness http /alive: status 500 (3 in a row)" ||
			s.Phase != wire.PhaseRunning {
			t.Errorf("while it ends: %+v", s)
		}
		r.prober.setOf(health.Liveness, nil)
		after(6 * time.Second)
		if _, killed, cleaned := first.seen(); !killed || cleaned != 1 {
			t.Errorf("killed %v, cleaned %d times", killed, cleaned)
		}
		s := r.status(web0)
		if s.Phase != wire.PhaseRunning || s.Restarts != 1 || s.LastExit == nil ||
			s.LastExit.Why != "liveness http /alive: status 500 (3 in a row)" || s.LastExit.Code != 137 {
			t.Errorf("after it: %+v, %+v", s, s.LastExit)
		}
		// It is ended as ordered while it is being ended, too.
		second := r.one(web0)
		second.ignoreSignals()
		r.prober.setOf(health.Liveness, errors.New("status 500"))
		after(7 * time.Second)
		r.apply()
		after(time.Minute)
		if s := r.status(web0); s.ID != "" || len(r.driver.live(web0)) != 0 {
			t.Errorf("it was to be forgotten: %+v", s)
		}
	})
}

func TestLivenessAndTheRestartRule(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for policy, want := range map[string]struct {
			phase wire.Phase
			why   string
		}{
			"never": {wire.PhaseExited,
				"liveness http /alive: status 500 (3 in a row), the restart policy is never"},
			"on-failure": {wire.PhasePending, "liveness http /alive: status 500 (3 in a row), restart 1 of 5 in "},
			"always":     {wire.PhasePending, "liveness http /alive: status 500 (3 in a row), restart 1 of 5 in "},
		} {
			o := checked()
			o.ID, o.Ordinal = "shop.web."+fmt.Sprint(len(policy)), len(policy)
			o.Spec.Restart = api.Restart{Policy: policy, Delay: 60e9, MaxDelay: 600e9}
			r.prober.setOf(health.Liveness, nil)
			r.apply(o)
			after(time.Second)
			r.prober.setOf(health.Liveness, errors.New("status 500"))
			after(8 * time.Second)
			if s := r.status(o.ID); s.Phase != want.phase || !strings.HasPrefix(s.Why, want.why) {
				t.Errorf("%s: %+v", policy, s)
			}
		}
	})
}

func TestChecksByCommand(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Env = map[string]string{"MODE": "quick"}
		o.Spec.Readiness = &api.Check{Exec: &api.ExecCheck{Command: []string{"look", "--port=${PORT}", "${MODE}",
			"$$x"}}, Interval: 1e9, Failures: 2}
		r.apply(o)
		after(time.Minute)
		s := r.status(web0)
		if !s.Ready || r.prober.count() != 0 {
			t.Fatalf("%+v after %d probes of ports", s, r.prober.count())
		}
		task := r.one(web0)
		check := func(what string) {
			t.Helper()
			task.mu.Lock()
			defer task.mu.Unlock()
			if n := len(task.execs); n < 55 || n > 62 {
				t.Errorf("%s: %d commands in a minute", what, n)
			}
			e := task.execs[len(task.execs)-1]
			if want := []string{"look", fmt.Sprintf("--port=%d", s.Ports["http"]), "quick",
				"$x"}; !slices.Equal(e.Command, want) {
				t.Errorf("%s: command %q, want %q", what, e.Command, want)
			}
			for _, want := range []string{"MODE=quick", "VERGE_INSTANCE=shop.web.0", "PATH=/bin:/usr/bin",
				"VERGE_EXEC=1"} {
				if !slices.Contains(e.Env, want) {
					t.Errorf("%s: environment lacks %s", what, want)
				}
			}
			task.execs = nil
		}
		check("started")
		r.stop()
		r.start()
		after(time.Minute)
		check("found again")
		task.mu.Lock()
		task.beside = func(e runtime.Exec) (wire.Exit, error) {
			_, err := e.Stdout.WriteString("no\tanswer\x1b[31m\nfrom the store\n")
			return wire.Exit{Code: 3}, err
		}
		task.mu.Unlock()
		after(3 * time.Second)
		if s := r.status(web0); s.Ready || !strings.HasPrefix(s.Why,
			`readiness command look: exit code 3 "no answer [31m from the store" (`) {
			t.Errorf("%+v", s)
		}
	})
}

func TestNewChecksOfTheSameProgram(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(checked())
		after(10 * time.Second)
		o := checked()
		o.Revision = 2
		o.Spec.Readiness = &api.Check{TCP: &api.TCPCheck{}, Interval: 10e9}
		o.Spec.Liveness = nil
		o.Spec.Startup = nil
		r.apply(o)
		synctest.Wait()
		if s := r.status(web0); s.Revision != 2 || !s.Ready || s.Phase != wire.PhaseRunning {
			t.Errorf("at once: %+v", s)
		}
		before, alive := r.prober.countOf(health.Readiness), r.prober.countOf(health.Liveness)
		after(time.Minute)
		if n := r.prober.countOf(health.Readiness) - before; n < 5 || n > 6 {
			t.Errorf("%d probes in a minute, want one every ten seconds", n)
		}
		if n := r.prober.countOf(health.Liveness) - alive; n != 0 {
			t.Errorf("%d probes of a check that is no more", n)
		}
		if r.driver.starts(web0) != 1 {
			t.Error("it was restarted")
		}
	})
}
