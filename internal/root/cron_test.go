// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// nightly applies a job of three indexes with a schedule.
func (s *sim) nightly(change func(*api.Service)) {
	s.task(3, 2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
		if change != nil {
			change(v)
		}
	})
}

// says lets a cluster say how far it is with the schedule that it was given.
func (s *sim) says(cluster string, run wire.JobRun, after time.Time, pending ...time.Time) {
	sh := s.m.shares[cluster+".app.web"]
	if sh == nil || sh.Cron == nil {
		s.t.Fatalf("cluster %s has no schedule\n%s", cluster, s.dump())
	}
	s.m.clusters[cluster].takeFor(s.t, &wire.JobReport{
		App: "app", Service: "web", Run: run, Epoch: sh.Cron.Epoch, Next: after.Add(10 * time.Minute),
		Cron: &wire.CronState{Rule: sh.Spec.Cron.Rule(), After: after, Pending: pending},
	})
}

func (cl *cluster) takeFor(t *testing.T, r *wire.JobReport) {
	if ok, err := cl.takeJob(wire.Change{Key: wire.ReportedJob + r.Key(), Value: encoded(t, r)}); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// owners are the clusters that have a schedule, and what they were given with it.
func (s *sim) owners() (names []string, start wire.CronStart) {
	for key, sh := range s.m.shares {
		if sh.Spec.Cron != nil && sh.Cron != nil && !sh.Cron.Elsewhere {
			name, _, _ := strings.Cut(key, ".")
			names, start = append(names, name), *sh.Cron
		}
	}
	return names, start
}

func (s *sim) wantOwner(want string) wire.CronStart {
	s.t.Helper()
	names, start := s.owners()
	if len(names) != 1 || names[0] != want {
		s.t.Fatalf("the schedule is at %v, want %s\n%s", names, want, s.dump())
	}
	return start
}

// A schedule is given to one cluster with all its indexes, and goes to another one if that
// is lost, which begins with what was heard of it.
func TestAScheduleHasOneCluster(t *testing.T) {
	s := newSim(t, "a", "b")
	s.fakes["a"].room, s.fakes["b"].room = 10, 9
	s.nightly(nil)
	s.fakes["a"].idle, s.fakes["b"].idle = true, true
	s.ticks(3, time.Second)
	first, start := s.owners()
	if len(first) != 1 || start.Epoch != 1 || !start.After.IsZero() {
		t.Fatalf("it is at %v, %+v\n%s", first, start, s.dump())
	}
	owner, other := first[0], "b"
	if owner == "b" {
		other = "a"
	}
	if v, message := s.m.jobView(s.m.apps["app"], "web", s.m.begin().of("app", "web")); v.Next != (time.Time{}) || !strings.Contains(message, "has not taken") {
		t.Errorf("before it is heard: %+v, %q", v, message)
	}
	at := s.now.UTC().Truncate(time.Minute)
	s.says(owner, wire.JobRun{N: 4, Scheduled: at, Began: at, Restarted: 2}, at)
	s.ticks(2, time.Second)
	if v := s.jobView(); v.Run != 4 || v.Outcome != "" || v.Next.IsZero() || len(v.Runs) != 1 {
		t.Errorf("it is seen as %+v", v)
	}
	s.restart() // what was heard is on disk
	s.fakes[owner].linked = false
	s.ticks(100, time.Second)
	start = s.wantOwner(other)
	if start.Epoch != 2 || !start.After.Equal(at) || len(start.Pending) != 1 || !start.Pending[0].Equal(at) || start.N != 4 || start.Restarted != 0 {
		t.Errorf("it begins with %+v", start)
	}
	if n := s.indexes(other); n != 3 {
		t.Errorf("it has %d indexes\n%s", n, s.dump())
	}
	// The one that was lost is back: the schedule stays, and what it has ends.
	s.fakes[owner].linked = true
	s.says(other, wire.JobRun{N: 5, Scheduled: at, Began: at, Outcome: wire.JobComplete, Ended: at, Completed: 3}, at)
	s.ticks(10, time.Second)
	s.wantOwner(other)
	if n := s.indexes(owner); n != 0 {
		t.Errorf("%s still has %d indexes\n%s", owner, n, s.dump())
	}
	if v := s.jobView(); v.Outcome != wire.JobComplete || v.Completed != 3 {
		t.Errorf("it is seen as %+v", v)
	}
}

func (s *sim) indexes(cluster string) (n int) {
	if sh := s.m.shares[cluster+".app.web"]; sh != nil {
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
		sched := schedule{Start: wire.CronStart{Epoch: 6}, Last: wire.JobReport{Run: c.run, Cron: &wire.CronState{Rule: "r", After: at}}}
		got := handOver(&sched, c.missed, 9, at)
		if len(got.Pending) != c.pending || got.Restarted != c.restarted || got.Epoch != 7 || !got.After.Equal(at) || got.Rule != "r" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Nor does it bind the next one what that one claims to have heeded.
	lies := schedule{Start: wire.CronStart{Epoch: 6}, Last: wire.JobReport{Run: wire.JobRun{N: 3, Outcome: wire.JobComplete, Restarted: 1 << 60}, Cron: &wire.CronState{Rule: "r", After: at}}}
	if got := handOver(&lies, api.MissedOnce, 2, at); got.Restarted != 2 {
		t.Errorf("%d marks are taken for heeded, 2 were given", got.Restarted)
	}
	// A cluster that was never heard had what it was given.
	sched := schedule{Start: wire.CronStart{Epoch: 1, Rule: "r", After: at, N: 8, Restarted: 3, Pending: []time.Time{at}}}
	if got := handOver(&sched, api.MissedOnce, 3, at); !got.After.Equal(at) || got.N != 8 || got.Restarted != 3 || len(got.Pending) != 1 {
		t.Errorf("%+v", got)
	}
}

// What a cluster says of times to come stops no run of the one that has its schedule next,
// and nothing that it says keeps another one from writing what it has decided.
func TestTimesToComeAreNotHandedOver(t *testing.T) {
	s := newSim(t, "a", "b")
	s.nightly(nil)
	for _, f := range s.fakes {
		f.room, f.idle = 10, true
	}
	s.ticks(3, time.Second)
	names, _ := s.owners()
	owner, other := names[0], map[string]string{"a": "b", "b": "a"}[names[0]]
	past := s.now.UTC().Truncate(time.Minute).Add(-time.Hour)
	tenThousand := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600-59*60))
	far := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	s.says(owner, wire.JobRun{N: 1<<64 - 1, Scheduled: tenThousand, Began: past}, far, past, far, tenThousand)
	s.ticks(2, time.Second)
	s.fakes[owner].linked = false
	s.ticks(100, time.Second)
	start := s.wantOwner(other)
	if start.After.After(s.now) || start.After.Before(past) || len(start.Pending) != 1 || !start.Pending[0].Equal(past) || start.N+100 < start.N {
		t.Errorf("it begins with %+v", start)
	}
}

// A cluster that has no room for a run gives it back, and the schedule moves as a whole.
func TestAScheduleIsGivenBack(t *testing.T) {
	s := newSim(t, "a", "b")
	s.fakes["a"].room, s.fakes["a"].boasts = 0, 20
	s.nightly(nil)
	s.ticks(30, time.Second)
	s.wantOwner("b")
	if n := s.indexes("b"); n != 3 {
		t.Errorf("it has %d indexes\n%s", n, s.dump())
	}
}

// Marks for a run and for its end are from one count, and other services keep theirs.
func TestStopsAreMarks(t *testing.T) {
	s := newSim(t, "a")
	s.nightly(nil)
	s.ticks(2, time.Second)
	if n := s.again("app", -1); n != 1 {
		t.Fatalf("the first mark is %d", n)
	}
	app := *s.m.apps["app"]
	app.Stops = stops(&app, "web", wire.Restart{N: s.m.nextRestart(&app), By: "ann"})
	s.m.apps["app"] = &app
	s.store(keyApp+"app", &app)
	s.ticks(2, time.Second)
	sh := s.m.shares["a.app.web"]
	if sh.Stop == nil || sh.Stop.N != 2 || sh.Restart.N != 1 || !stopped(&app, "web") {
		t.Fatalf("the share says %+v, %+v", sh.Stop, sh.Restart)
	}
	if n := s.again("app", -1); n != 3 || stopped(s.m.apps["app"], "web") {
		t.Errorf("the next mark is %d", n)
	}
}
