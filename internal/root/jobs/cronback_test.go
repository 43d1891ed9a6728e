package jobs_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that has forgotten what it began, and says so, is given its schedule again, once,
// with what it was heard of; what it says before it has taken that is not believed.
func TestAClusterThatForgotIsToldWhatItBegan(t *testing.T) {
	s := roottest.NewSim(t, "a")
	nightly(s, nil)
	s.Clusters["a"].HoldsJobs = true
	s.Ticks(3, time.Second)
	wantOwner(s, "a")
	at := s.Now.UTC().Truncate(time.Minute)
	last := wire.JobRun{N: 7, Scheduled: at, Began: at, Outcome: wire.JobComplete, Restarted: 9}
	says(s, "a", last, at)
	s.Ticks(2, time.Second)
	say := func(n, epoch uint64, restored time.Time) wire.CronStart {
		t.Helper()
		takeFor(s.Model.Clusters["a"], t, &wire.JobReport{App: "app", Service: "web", Epoch: epoch, Restored: restored,
			Run:  wire.JobRun{N: n, Scheduled: at.Add(-time.Hour), Began: at.Add(-time.Hour)},
			Cron: &wire.CronState{Rule: "r", After: at.Add(-time.Hour)}})
		s.Ticks(3, time.Second)
		return wantOwner(s, "a")
	}
	want := func(start wire.CronStart, epoch uint64, restored time.Time) {
		t.Helper()
		if start.Epoch != epoch || !start.Restored.Equal(restored) || !start.After.Equal(at) || start.N != 7 ||
			start.Run == nil || start.Run.N != 7 ||
			start.Run.Outcome != wire.JobComplete || start.Run.Restarted != 0 || start.Restarted != 0 {
			t.Fatalf("it is given %+v, %+v", start, start.Run)
		}
	}
	// What it reports first may be what was in the backup, or it may be of a version that does not ask.
	want(say(4, 1, time.Time{}), 2, time.Time{})
	restored := at.Add(time.Minute)
	for range 3 {
		want(say(4, 1, restored), 3, restored)
		s.Reopen()
	}
	// It is restored once more before it has taken that.
	restored = at.Add(2 * time.Minute)
	want(say(2, 1, restored), 4, restored)
	if r := jobs.Table.Rows(s.Model.DB)["app.web"].Last.Run; r.N != 7 {
		t.Fatalf("what it says before is believed: %+v", r)
	}
	// It goes on, whatever it counts from, and nothing is given again.
	for n := range uint64(3) {
		want(say(5+n, 4, time.Time{}), 4, restored)
		if r := jobs.Table.Rows(s.Model.DB)["app.web"].Last.Run; r.N != 5+n {
			t.Fatalf("what it says then is not: %+v", r)
		}
	}
}

// Who was never heard of a schedule is given it as before; what a cluster said of times to
// come does not bind it.
func TestWhatIsGivenAgain(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	first := wire.CronStart{Epoch: 3, Rule: "r", After: now.Add(-time.Hour), N: 2, Restarted: 1}
	got := jobs.GiveAgain(&jobs.Schedule{Start: first,
		Last: wire.JobReport{Epoch: 2, Run: wire.JobRun{N: 9, Began: now},
			Cron: &wire.CronState{Rule: "x", After: now}}}, now, 5, now)
	if got.Epoch != 4 || got.Rule != "r" || got.N != 2 || got.Run != nil || !got.After.Equal(first.After) ||
		!got.Restored.Equal(now) {
		t.Errorf("what another cluster said is given: %+v", got)
	}
	far := now.Add(time.Hour)
	got = jobs.GiveAgain(&jobs.Schedule{Start: first,
		Last: wire.JobReport{Epoch: 3, Run: wire.JobRun{N: 9, Began: now, Restarted: 8},
			Cron: &wire.CronState{Rule: "x", After: far, Pending: []time.Time{now, far}}}}, now, 5, now)
	if got.Rule != "x" || got.N != 9 || got.Run == nil || got.Run.Restarted != 5 || got.Restarted != 5 ||
		!got.After.Equal(now) || len(got.Pending) != 1 {
		t.Errorf("%+v, %+v", got, got.Run)
	}
}
