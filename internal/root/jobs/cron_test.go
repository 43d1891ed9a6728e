package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// nightly applies a job of three indexes with a schedule.
func nightly(s *roottest.Sim, change func(*api.Service)) {
	task(s, 3, 2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
		if change != nil {
			change(v)
		}
	})
}

// says lets a cluster say how far it is with the schedule that it was given.
func says(s *roottest.Sim, cluster string, run wire.JobRun, after time.Time, pending ...time.Time) {
	sh := s.Model.Shares[cluster+".app.web"]
	if sh == nil || sh.Cron == nil {
		s.T.Fatalf("cluster %s has no schedule\n%s", cluster, s.Dump())
	}
	takeFor(s.Model.Clusters[cluster], s.T, &wire.JobReport{
		App: "app", Service: "web", Run: run, Epoch: sh.Cron.Epoch, Next: after.Add(10 * time.Minute),
		Cron: &wire.CronState{Rule: sh.Spec.Cron.Rule(), After: after, Pending: pending},
	})
}

func takeFor(cl *state.Cluster, t *testing.T, r *wire.JobReport) {
	if ok, err := jobs.Take(cl, wire.Change{Key: wire.ReportedJob + r.Key(), Value: roottest.JSON(t, r)}); !ok ||
		err != nil {
		t.Fatal(ok, err)
	}
}

// owners are the clusters that have a schedule, and what they were given with it.
func owners(s *roottest.Sim) (names []string, start wire.CronStart) {
	for key, sh := range s.Model.Shares {
		if sh.Spec.Cron != nil && sh.Cron != nil && !sh.Cron.Elsewhere {
			name, _, _ := strings.Cut(key, ".")
			names, start = append(names, name), *sh.Cron
		}
	}
	return names, start
}

func wantOwner(s *roottest.Sim, want string) wire.CronStart {
	s.T.Helper()
	names, start := owners(s)
	if len(names) != 1 || names[0] != want {
		s.T.Fatalf("the schedule is at %v, want %s\n%s", names, want, s.Dump())
	}
	return start
}

// A schedule is given to one cluster with all its indexes, and goes to another one if that
// is lost, which begins with what was heard of it.
func TestAScheduleHasOneCluster(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	s.Clusters["a"].Room, s.Clusters["b"].Room = 10, 9
	nightly(s, nil)
	s.Clusters["a"].HoldsJobs, s.Clusters["b"].HoldsJobs = true, true
	s.Ticks(3, time.Second)
	first, start := owners(s)
	if len(first) != 1 || start.Epoch != 1 || !start.After.IsZero() {
		t.Fatalf("it is at %v, %+v\n%s", first, start, s.Dump())
	}
	owner, other := first[0], "b"
	if owner == "b" {
		other = "a"
	}
	if v, message := jobs.View(s.Model, s.Model.Apps["app"], "web",
		s.Model.Begin().Of("app", "web")); v.Next != (time.Time{}) ||
		!strings.Contains(message, "has not taken") {
		t.Errorf("before it is heard: %+v, %q", v, message)
	}
	at := s.Now.UTC().Truncate(time.Minute)
	says(s, owner, wire.JobRun{N: 4, Scheduled: at, Began: at, Restarted: 2}, at)
	s.Ticks(2, time.Second)
	if v := jobView(s); v.Run != 4 || v.Outcome != "" || v.Next.IsZero() || len(v.Runs) != 1 {
		t.Errorf("it is seen as %+v", v)
	}
	s.Reopen() // what was heard is on disk
	s.Clusters[owner].Linked = false
	s.Ticks(100, time.Second)
	start = wantOwner(s, other)
	if start.Epoch != 2 || !start.After.Equal(at) || len(start.Pending) != 1 || !start.Pending[0].Equal(at) ||
		start.N != 4 || start.Restarted != 0 {
		t.Errorf("it begins with %+v", start)
	}
	if n := indexes(s, other); n != 3 {
		t.Errorf("it has %d indexes\n%s", n, s.Dump())
	}
	// The one that was lost is back: the schedule stays, and what it has ends.
	s.Clusters[owner].Linked = true
	says(s, other, wire.JobRun{N: 5, Scheduled: at, Began: at, Outcome: wire.JobComplete, Ended: at, Completed: 3}, at)
	s.Ticks(10, time.Second)
	wantOwner(s, other)
	if n := indexes(s, owner); n != 0 {
		t.Errorf("%s still has %d indexes\n%s", owner, n, s.Dump())
	}
	if v := jobView(s); v.Outcome != wire.JobComplete || v.Completed != 3 {
		t.Errorf("it is seen as %+v", v)
	}
}

func indexes(s *roottest.Sim, cluster string) (n int) {
	if sh := s.Model.Shares[cluster+".app.web"]; sh != nil {
		for _, sp := range sh.Ordinals {
			n += sp.To - sp.From
		}
	}
	return n
}

// What ended is not run again by the next cluster, nor what is skipped by its policy; what
// somebody asked for is.
func TestWhatIsHandedOver(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		run       wire.JobRun
		missed    string
		pending   int
		restarted uint64
	}{
		"ended":     {wire.JobRun{N: 3, Scheduled: at, Outcome: wire.JobFailed, Restarted: 2}, api.MissedOnce, 0, 2},
		"goes on":   {wire.JobRun{N: 3, Scheduled: at, Restarted: 2}, api.MissedAll, 1, 2},
		"skipped":   {wire.JobRun{N: 3, Scheduled: at, Restarted: 2}, api.MissedSkip, 0, 2},
		"asked for": {wire.JobRun{N: 3, Restarted: 2}, api.MissedSkip, 0, 1},
		"never":     {wire.JobRun{}, api.MissedOnce, 0, 0},
	} {
		sched := jobs.Schedule{Start: wire.CronStart{Epoch: 6},
			Last: wire.JobReport{Run: c.run, Cron: &wire.CronState{Rule: "r", After: at}}}
		got := jobs.HandOver(&sched, c.missed, 9, at)
		if len(got.Pending) != c.pending || got.Restarted != c.restarted || got.Epoch != 7 || !got.After.Equal(at) ||
			got.Rule != "r" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Nor does it bind the next one what that one claims to have heeded.
	lies := jobs.Schedule{Start: wire.CronStart{Epoch: 6},
		Last: wire.JobReport{Run: wire.JobRun{N: 3, Outcome: wire.JobComplete, Restarted: 1 << 60},
			Cron: &wire.CronState{Rule: "r", After: at}}}
	if got := jobs.HandOver(&lies, api.MissedOnce, 2, at); got.Restarted != 2 {
		t.Errorf("%d marks are taken for heeded, 2 were given", got.Restarted)
	}
	// A cluster that was never heard had what it was given.
	sched := jobs.Schedule{Start: wire.CronStart{Epoch: 1, Rule: "r", After: at, N: 8, Restarted: 3,
		Pending: []time.Time{at}}}
	if got := jobs.HandOver(&sched, api.MissedOnce, 3, at); !got.After.Equal(at) || got.N != 8 ||
		got.Restarted != 3 || len(got.Pending) != 1 {
		t.Errorf("%+v", got)
	}
}

// What a cluster says of times to come stops no run of the one that has its schedule next,
// and nothing that it says keeps another one from writing what it has decided.
func TestTimesToComeAreNotHandedOver(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	nightly(s, nil)
	for _, f := range s.Clusters {
		f.Room, f.HoldsJobs = 10, true
	}
	s.Ticks(3, time.Second)
	names, _ := owners(s)
	owner, other := names[0], map[string]string{"a": "b", "b": "a"}[names[0]]
	past := s.Now.UTC().Truncate(time.Minute).Add(-time.Hour)
	tenThousand := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600-59*60))
	far := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	says(s, owner, wire.JobRun{N: 1<<64 - 1, Scheduled: tenThousand, Began: past}, far, past, far, tenThousand)
	s.Ticks(2, time.Second)
	s.Clusters[owner].Linked = false
	s.Ticks(100, time.Second)
	start := wantOwner(s, other)
	if start.After.After(s.Now) || start.After.Before(past) || len(start.Pending) != 1 ||
		!start.Pending[0].Equal(past) || start.N+100 < start.N {
		t.Errorf("it begins with %+v", start)
	}
}

// A cluster that has no room for a run gives it back, and the schedule moves as a whole.
func TestAScheduleIsGivenBack(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	s.Clusters["a"].Room, s.Clusters["a"].ClaimedRoom = 0, 20
	nightly(s, nil)
	s.Ticks(30, time.Second)
	wantOwner(s, "b")
	if n := indexes(s, "b"); n != 3 {
		t.Errorf("it has %d indexes\n%s", n, s.Dump())
	}
}

// Marks for a run and for its end are from one count, and other services keep theirs.
func TestStopsAreMarks(t *testing.T) {
	s := roottest.NewSim(t, "a")
	nightly(s, nil)
	s.Ticks(2, time.Second)
	if n := s.Restart("app", -1); n != 1 {
		t.Fatalf("the first mark is %d", n)
	}
	app := *s.Model.Apps["app"]
	app.Stops = jobs.Stops(&app, "web", wire.Restart{N: edits.NextRestart(s.Model, &app), By: "ann"})
	s.Model.Apps["app"] = &app
	s.Store(state.KeyApp+"app", &app)
	s.Ticks(2, time.Second)
	sh := s.Model.Shares["a.app.web"]
	if sh.Stop == nil || sh.Stop.N != 2 || sh.Restart.N != 1 || !jobs.Stopped(&app, "web") {
		t.Fatalf("the share says %+v, %+v", sh.Stop, sh.Restart)
	}
	if n := s.Restart("app", -1); n != 3 || jobs.Stopped(s.Model.Apps["app"], "web") {
		t.Errorf("the next mark is %d", n)
	}
}
