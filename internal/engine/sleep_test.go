package engine

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// sleeper is an order that may sleep, after a minute without a request.
func sleeper(ordinal, incarnation int, cpu api.CPU, awake bool) wire.Order {
	o := order(ordinal, incarnation, cpu)
	o.Sleep = &wire.Sleep{Idle: api.Duration(time.Minute), Awake: awake}
	return o
}

// used notes a request to an instance.
func (r *rig) used(id string) {
	r.router.mu.Lock()
	defer r.router.mu.Unlock()
	if r.router.lastUse == nil {
		r.router.lastUse = map[string]time.Time{}
	}
	r.router.lastUse[id] = time.Now()
}

func (r *rig) mustSleep(id string) {
	r.t.Helper()
	s := r.status(id)
	_, err := r.e.Target(id, "http")
	if s.Phase != wire.PhasePending || !s.Asleep || s.Ready || s.Draining || s.PID != 0 ||
		!errors.Is(err, proxy.ErrAsleep) || len(r.driver.live(id)) != 0 {
		r.t.Fatalf("it does not sleep: %+v, %v, %d tasks", s, err, len(r.driver.live(id)))
	}
}

func (r *rig) mustServe(id string) {
	r.t.Helper()
	s := r.status(id)
	if _, err := r.e.Target(id, "http"); s.Phase != wire.PhaseRunning || !s.Ready || s.Asleep || err != nil {
		r.t.Fatalf("it does not serve: %+v, %v", s, err)
	}
}

func TestSleepAndWake(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(sleeper(0, 1, 100, false))
		r.mustSleep(web0)
		if _, err := os.Stat(r.recordPath(web0)); err == nil {
			t.Error("what sleeps and never ran takes room on the disk")
		}
		r.prober.set(errors.New("refused"))
		r.e.Wake(web0)
		r.e.Wake(web0)
		after(30 * time.Millisecond)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Ready || !s.Asleep {
			t.Fatalf("while it wakes: %+v", s)
		}
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrAsleep) {
			t.Errorf("while it wakes: %v", err)
		}
		r.prober.set(nil)
		after(50 * time.Millisecond)
		r.mustServe(web0)
		if s := r.status(web0); s.StartUp.Std() < 25*time.Millisecond || s.StartUp.Std() > 100*time.Millisecond {
			t.Errorf("it took %s to start", s.StartUp)
		}
		// Used now and then it stays.
		for range 5 {
			after(50 * time.Second)
			r.used(web0)
		}
		r.mustServe(web0)
		after(61 * time.Second)
		r.mustSleep(web0)
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
		if s := r.status(web0); s.Restarts != 0 || r.driver.starts(web0) != 2 {
			t.Errorf("%d restarts after %d starts: waking is none", s.Restarts, r.driver.starts(web0))
		}
	})
}

// A driver knows of what sleeps, or falls asleep, that it may be started; and of nothing else.
func TestDriversExpectWhatSleeps(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		expects := func(want bool, when string) {
			t.Helper()
			if got := r.driver.expects(web0); got != want {
				t.Errorf("%s: a start is expected: %t", when, got)
			}
		}
		r.apply(order(0, 1, 100))
		after(time.Second)
		expects(false, "it never sleeps")
		r.apply(sleeper(0, 1, 100, false))
		after(time.Minute + time.Second)
		r.mustSleep(web0)
		expects(true, "it sleeps")
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
		expects(false, "it runs")
		after(time.Minute + time.Second)
		expects(true, "it sleeps again")
		r.apply()
		after(time.Second)
		expects(false, "nobody wants it any more")
	})
}

// That a driver starts an instance is shown where it takes long, and not before.
func TestAShortStartIsNotShown(t *testing.T) {
	for takes, shown := range map[time.Duration]bool{50 * time.Millisecond: false, time.Second: true} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.driver.start = takes
				r.apply(order(0, 1, 100))
				after(takes - 10*time.Millisecond)
				s, err := r.e.State(t.Context(), 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				is := len(s.Changed) == 1 && s.Changed[0].Phase == wire.PhasePending && s.Changed[0].Why == "starting"
				if is != shown || !shown && len(s.Changed) > 0 {
					t.Errorf("it is shown: %+v", s.Changed)
				}
				after(time.Second)
				r.mustServe(web0)
			})
		})
	}
}

func TestAwakeByOrder(t *testing.T) {
	inBubble(t, func(_ *testing.T, r *rig) {
		r.apply(sleeper(0, 1, 100, true))
		after(time.Second)
		r.mustServe(web0)
		after(time.Hour)
		r.mustSleep(web0)
		r.apply(sleeper(0, 1, 100, true)) // as before
		r.stop()
		r.start()
		after(time.Second)
		r.mustSleep(web0)
		r.apply(sleeper(0, 1, 100, false))
		r.apply(sleeper(0, 1, 100, true)) // needed again
		after(time.Second)
		r.mustServe(web0)
		// It may not sleep any more.
		r.apply(order(0, 1, 100))
		after(time.Hour)
		r.mustServe(web0)
		r.apply(sleeper(0, 1, 100, false))
		after(time.Minute + time.Second)
		r.mustSleep(web0)
		r.apply(order(0, 1, 100))
		after(time.Second)
		r.mustServe(web0)
	})
}

func TestSleepingReservesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		all := r.config.Capacity.CPU
		r.apply(sleeper(0, 1, all, false), sleeper(1, 1, all, false))
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
		const other = "shop.web.1"
		r.e.Wake(other)
		after(time.Second)
		s := r.status(other)
		_, err := r.e.Target(other, "http")
		if s.Phase != wire.PhaseRefused || !strings.Contains(s.Why, "cpu") || !errors.Is(err, proxy.ErrNotReady) {
			t.Fatalf("without room: %+v, %v", s, err)
		}
		after(time.Minute) // the other sleeps, so there is room for who asked
		r.mustSleep(web0)
		r.mustServe(other)
	})
}

func TestARequestWhileItFallsAsleep(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(sleeper(0, 1, 100, true))
		after(time.Second)
		busy := make(chan struct{})
		r.router.mu.Lock()
		r.router.busy = map[string]chan struct{}{web0: busy}
		r.router.mu.Unlock()
		after(time.Minute)
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrAsleep) {
			t.Fatalf("while it falls asleep: %v", err)
		}
		// It stays: nobody would come to an end if each waited for the other.
		r.e.Wake(web0)
		synctest.Wait()
		r.mustServe(web0)
		if r.driver.starts(web0) != 1 {
			t.Errorf("%d starts", r.driver.starts(web0))
		}
		close(busy)
		after(time.Minute + time.Second)
		r.mustSleep(web0)
	})
}

func TestAColdStartThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.driver.setFail(errors.New("no such program"))
		o := sleeper(0, 1, 100, false)
		tries := 2
		o.Spec.Restart.MaxRestarts = &tries
		r.apply(o)
		r.e.Wake(web0)
		after(10 * time.Millisecond)
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrAsleep) ||
			!strings.Contains(err.Error(), "no such program") {
			t.Errorf("while it is tried: %v", err)
		}
		after(time.Minute)
		s := r.status(web0)
		if _, err := r.e.Target(web0, "http"); s.Phase != wire.PhaseExited || s.Asleep ||
			!errors.Is(err, proxy.ErrNotReady) {
			t.Errorf("given up: %+v, %v", s, err)
		}
		r.driver.setFail(nil)
		r.apply(sleeper(0, 2, 100, true))
		after(time.Second)
		r.mustServe(web0)
	})
}

// unstarted is what the router is told of an instance that does not start.
func (r *rig) unstarted(id string) *proxy.StartError {
	r.t.Helper()
	_, err := r.e.Target(id, "http")
	var se *proxy.StartError
	if !errors.As(err, &se) || !errors.Is(err, proxy.ErrNotReady) || errors.Is(err, proxy.ErrAsleep) {
		r.t.Fatalf("the router is told %v", err)
	}
	return se
}

// Requests wait through the first starts that fail, then they are told; it is tried as
// often as the restart rule allows, however many ask, and a mended one answers.
func TestAColdStartThatFailsAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.driver.setFail(errors.New("/opt/secret/place: no such program"))
		o := sleeper(0, 1, 100, false)
		tries := 8
		o.Spec.Restart.MaxRestarts = &tries
		o.Spec.Restart.Delay, o.Spec.Restart.MaxDelay = api.Duration(400*time.Millisecond), api.Duration(time.Minute)
		r.apply(o)
		r.e.Wake(web0)
		synctest.Wait()
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrAsleep) {
			t.Errorf("after one that failed: %v", err)
		}
		after(900 * time.Millisecond)
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrAsleep) {
			t.Errorf("after two that failed: %v", err)
		}
		after(700 * time.Millisecond)
		se := r.unstarted(web0)
		if se.Why != "its program could not be started" || se.Again <= 0 || se.Again > 2*time.Second || se.Full {
			t.Errorf("after three: %+v", se)
		}
		// Who asks meanwhile changes nothing.
		before := r.status(web0).Restarts
		for range 100 {
			r.e.Wake(web0)
		}
		synctest.Wait()
		if n := r.status(web0).Restarts; n != before {
			t.Errorf("%d restarts, there were %d: somebody who asks is no reason to try", n, before)
		}
		after(20 * time.Second)
		if n := r.status(web0).Restarts; n > 6 {
			t.Errorf("%d restarts within 20 s", n)
		}
		after(10 * time.Minute)
		if s, se := r.status(web0), r.unstarted(web0); s.Phase != wire.PhaseExited || se.Again != 0 {
			t.Errorf("given up: %+v, %+v", s, se)
		}
		r.driver.setFail(nil)
		r.apply(sleeper(0, 2, 100, false))
		r.mustSleep(web0)
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
		if took := r.status(web0).StartUp.Std(); took > time.Second {
			t.Errorf("its start took %v: what failed before is none of it", took)
		}
	})
}

func TestAColdStartThatEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := sleeper(0, 1, 100, false)
		r.apply(o)
		r.prober.set(errors.New("refused"))
		r.e.Wake(web0)
		for range 3 {
			after(10 * time.Millisecond)
			for len(r.driver.live(web0)) == 0 {
				after(10 * time.Millisecond)
			}
			r.one(web0).end(3)
		}
		synctest.Wait()
		if se := r.unstarted(web0); se.Why != "its program ended with exit code 3" || se.Again == 0 {
			t.Errorf("%+v", se)
		}
	})
}

func TestSleepersAfterTheEngineIsKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const other = "shop.web.1"
		r.apply(sleeper(0, 1, 100, false), sleeper(1, 1, 100, false))
		r.e.Wake(web0)
		after(time.Second)
		r.stop()
		r.start()
		after(time.Second)
		r.mustServe(web0) // it runs on
		r.mustSleep(other)
		after(time.Minute)
		r.mustSleep(web0)

		// Killed between a start and its note.
		r.e.Wake(web0)
		after(time.Second)
		r.stop()
		r.edit(web0, func(rec *state.Record) { rec.Starting, rec.Handle = true, nil })
		r.one(web0).end(1)
		r.start()
		after(time.Second)
		if !r.orphans.was(web0) {
			t.Error("what may have been started was not looked for")
		}
		r.mustSleep(web0)

		// The machine went off.
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
		r.stop()
		r.one(web0).end(1)
		r.boot, r.driver.boot = "boot-2", "boot-2"
		r.start()
		synctest.Wait()
		r.mustSleep(web0)
		r.e.Wake(web0)
		after(time.Second)
		r.mustServe(web0)
	})
}

// The clock was set by an hour while an engine was replaced: what is found again is as
// old as it is, sleeps no earlier and no later for it, and its failures still count.
func TestAClockThatIsSetMakesNothingOlder(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(sleeper(0, 1, 100, false))
				r.prober.set(errors.New("refused"))
				r.e.Wake(web0)
				after(5 * time.Second)
				r.one(web0).end(1)
				after(5 * time.Second)
				r.stop()
				r.edit(web0, func(rec *state.Record) {
					if rec.Failures != 1 || rec.Clock == 0 {
						t.Fatalf("it was written: %+v", rec)
					}
					rec.Started = rec.Started.Add(-by)
				})
				r.start()
				after(40 * time.Second) // 45 s after its start nobody has patience for more than a minute
				if len(r.driver.live(web0)) != 1 {
					t.Fatal("it was ended although it has just started")
				}
				r.one(web0).end(1)
				after(time.Second)
				r.stop()
				r.edit(web0, func(rec *state.Record) {
					if rec.Failures != 2 {
						t.Errorf("%d failures in a row, it has not run for long in between", rec.Failures)
					}
					rec.Started = rec.Started.Add(-by)
				})
				r.start()
				after(30 * time.Second)
				r.stop()
				r.edit(web0, func(rec *state.Record) { rec.Started = rec.Started.Add(-by) })
				r.start()
				after(35 * time.Second)
				r.mustSleep(web0)
			})
		})
	}
}
