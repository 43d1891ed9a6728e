package jobs_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/wire"
)

// scheduled gives the job to this cluster, every ten minutes, and is at 00:13 then, after its
// first run. disk is the backup of that moment.
func scheduled(s *clustertest.Sim, after int, missed string) (disk map[string][]byte) {
	ends(s, 2, nil)
	at(s, "00:01:00")
	cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
	regiven(s, func(sh *wire.Share) { sh.Cron = &wire.CronStart{Epoch: 1} })
	at(s, "00:10:00")
	at(s, "00:13:00")
	wantTimes(s, "00:10")
	ends(s, after, nil)
	return maps.Clone(s.Disk)
}

// back restores a backup while the root has the shares and what it was told of the job last,
// and lets the cluster hear the shares.
func back(s *clustertest.Sim, disk map[string][]byte) (last wire.JobReport) {
	s.T.Helper()
	given := maps.Clone(s.Model.FromRoot)
	last = *jobs.UpTable.Rows(s.Model.DB)["app.task"]
	s.RestoreFrom(disk)
	s.Ticks(5, time.Second)
	s.HearRoot(given)
	s.Ticks(20, time.Second)
	if r := jobs.UpTable.Rows(s.Model.DB)["app.task"]; r == nil || r.Restored.IsZero() ||
		!strings.Contains(jobs.CronMessage(s.Model, s.Model.Shares["app.task"]), "asks the root") {
		s.T.Fatalf("it does not ask the root: %+v\n%s", r, s.Dump())
	}
	return last
}

// answer is what the root gives a cluster that asks, of what it was told last.
func rootAnswers(s *clustertest.Sim, last *wire.JobReport) {
	asked := jobs.UpTable.Rows(s.Model.DB)["app.task"].Restored
	regiven(s, func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{
			Epoch: last.Epoch + 1, Restored: asked, Rule: last.Cron.Rule, After: last.Cron.After,
			Pending: last.Cron.Pending,
			N:       last.Run.N, Restarted: last.Run.Restarted, Run: &last.Run,
		}
	})
}

// What a cluster began after the backup that it was restored from, and told the root, it does
// not begin again; what nobody began counts as missed.
func TestCronOfARestoredClusterBeginsNothingTwice(t *testing.T) {
	for missed, want := range map[string]string{api.MissedSkip: "00:10 00:30 01:00",
		api.MissedOnce: "00:10 00:30 00:50 01:00", api.MissedAll: "00:10 00:30 00:40 00:50 01:00"} {
		s := clustertest.NewSim(t, "w1", "w2")
		disk := scheduled(s, 2, missed)
		at(s, "00:20:00")
		at(s, "00:30:00")
		wantTimes(s, "00:10 00:20 00:30")
		starts := s.Starts()
		s.Now = s.Now.Add(22 * time.Minute) // the old cluster is gone; 00:52
		last := back(s, disk)
		if wantTimes(s, "00:10"); s.Starts() != starts {
			t.Fatalf("%d were started before the root has answered", s.Starts()-starts)
		}
		rootAnswers(s, &last)
		s.Ticks(60, time.Second)
		at(s, "01:00:00")
		s.Ticks(10, time.Second)
		wantTimes(s, want) // 00:20 is in the past of the root alone
		r := record(s)
		if r.Cron.Missed != 2 || r.Run.N != 3+uint64(strings.Count(want, " ")-1) || !r.Held.IsZero() ||
			r.Epoch != 2 || !jobs.UpTable.Rows(s.Model.DB)["app.task"].Restored.IsZero() {
			t.Errorf("%s: %+v, %+v", missed, r, r.Cron)
		}
		if n := s.Starts() - starts; n != 2*(strings.Count(want, " ")-1) {
			t.Errorf("%s: %d were started after the restore", missed, n)
		}
		// The recovery goes on or not: it does not ask again.
		s.Restart()
		s.Ticks(5, time.Second)
		if !record(s).Held.IsZero() {
			t.Errorf("%s: it asks again", missed)
		}
	}
}

// A run that goes on on the workers, and that the backup does not know, goes on: there are
// never two.
func TestCronOfARestoredClusterLeavesARunAlone(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	disk := scheduled(s, 10000, api.MissedOnce)
	at(s, "00:20:00")
	wantTimes(s, "00:10 00:20")
	before := s.Processes()
	last := back(s, disk)
	if now := s.Processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.Dump())
	}
	rootAnswers(s, &last)
	s.Ticks(20, time.Second)
	if now, r := s.Processes(), record(s); !maps.Equal(now, before) || r.Run.N != 2 || !jobs.GoesOn(&r.Run) {
		t.Fatalf("it ran\n%v and now\n%v: %+v\n%s", before, now, r, s.Dump())
	}
	at(s, "00:30:00")
	wantTimes(s, "00:10 00:20")
	if r := record(s); r.Cron.Skipped != 1 {
		t.Errorf("00:30 is not skipped: %+v", r.Cron)
	}
	for _, i := range s.Model.Insts {
		if i.Service == "task" && (i.Job == nil || i.Job.Run != 2) {
			t.Errorf("%s is of %+v", i.ID, i.Job)
		}
	}
}

// A root that does not answer, as one of a version before, holds nothing up for long: what
// has passed counts as missed. Nor does one that has given the schedule to somebody else.
func TestCronOfARestoredClusterWithoutAnAnswer(t *testing.T) {
	for missed, want := range map[string]string{api.MissedSkip: "00:10", api.MissedOnce: "00:10 00:30"} {
		s := clustertest.NewSim(t, "w1", "w2")
		disk := scheduled(s, 2, missed)
		at(s, "00:20:00")
		at(s, "00:30:00")
		s.Now = s.Now.Add(5 * time.Minute)
		back(s, disk)
		s.Ticks(70, time.Second)
		wantTimes(s, want)
		if r := record(s); r.Cron.Missed != 2 || !r.Held.IsZero() {
			t.Errorf("%s: %+v", missed, r)
		}
	}
	s := clustertest.NewSim(t, "w1", "w2")
	disk := scheduled(s, 2, api.MissedOnce)
	at(s, "00:20:00")
	back(s, disk)
	regiven(s, func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
	s.Ticks(5, time.Second)
	if r := record(s); !r.Held.IsZero() || r.Run.N != 1 {
		t.Errorf("it waits for an answer: %+v", r)
	}
	// A job that has lost its schedule is as all others, of which the root is asked too.
	s = clustertest.NewSim(t, "w1", "w2")
	disk = scheduled(s, 2, api.MissedOnce)
	back(s, disk)
	s.Job(2, nil)
	s.Ticks(70, time.Second)
	if r := record(s); !r.Held.IsZero() || r.Run.Outcome != wire.JobComplete || r.Cron != nil {
		t.Errorf("it is held up: %+v", r)
	}
}

// An answer that knows less than the backup takes nothing back.
func TestARootThatKnowsLess(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 5, 0, 0, time.UTC)
	at := func(minute int) time.Time { return now.Add(time.Duration(minute-5) * time.Minute) }
	rec := jobs.Record{Run: wire.JobRun{N: 4, Began: at(0), Scheduled: at(0)},
		Cron: &wire.CronState{Rule: "r", After: at(0), Missed: 3}, Epoch: 1}
	for _, run := range []*wire.JobRun{nil, {N: 3, Began: at(-10), Outcome: wire.JobComplete}, {N: 4, Began: at(0)}} {
		got := rec
		what := jobs.TakeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "r", After: at(-10), N: 3, Run: run}, 10, now)
		if got.Run != rec.Run || got.Cron != rec.Cron || got.Epoch != 2 || len(got.Past) != 0 ||
			!strings.Contains(what, "no run") {
			t.Errorf("%+v makes %+v, %q", run, got, what)
		}
	}
	got := rec
	jobs.TakeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "r", After: at(3), N: 4,
		Run: &wire.JobRun{N: 4, Began: at(0), Outcome: wire.JobComplete}}, 10, now)
	if got.Run.Outcome != wire.JobComplete || len(got.Past) != 0 || !got.Cron.After.Equal(at(3)) ||
		got.Cron.Missed != 3 {
		t.Errorf("the same run has ended: %+v, %+v", got, got.Cron)
	}
	got = rec
	jobs.TakeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "other", After: at(3), N: 5,
		Run: &wire.JobRun{N: 5, Began: at(2)}}, 10, now)
	if got.Run.N != 5 || len(got.Past) != 1 || got.Past[0].Outcome != wire.JobReplaced || got.Cron != rec.Cron {
		t.Errorf("of another schedule: %+v", got)
	}
}

// A root that was restored from a backup gives a schedule with a lower epoch, and with what it
// knew then: nothing is begun again for that, and nothing that was decided is taken back. What
// it gives later, another cluster having had the schedule, counts.
func TestCronOfARestoredRoot(t *testing.T) {
	for _, missed := range []string{api.MissedOnce, api.MissedAll, api.MissedSkip} {
		s := clustertest.NewSim(t, "w1", "w2")
		ends(s, 2, nil)
		at(s, "00:01:00")
		cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
		regiven(s, func(sh *wire.Share) { sh.Cron = &wire.CronStart{Epoch: 4} })
		at(s, "00:10:00")
		at(s, "00:20:00")
		at(s, "00:30:00")
		wantTimes(s, "00:10 00:20 00:30")
		before, starts := *record(s), s.Starts()
		old := wire.CronStart{
			Epoch: 2, Rule: before.Cron.Rule, After: before.Cron.After.Add(-25 * time.Minute), N: 9, Restarted: 0,
			Pending: []time.Time{before.Cron.After.Add(-30 * time.Minute), before.Cron.After.Add(-10 * time.Minute)},
		}
		regiven(s, func(sh *wire.Share) { start := old; sh.Cron = &start })
		s.Restart()
		s.Ticks(20, time.Second)
		wantTimes(s, "00:10 00:20 00:30")
		r := record(s)
		if s.Starts() != starts || r.Run.N != before.Run.N || !r.Cron.After.Equal(before.Cron.After) ||
			r.Cron.Missed != before.Cron.Missed || r.Epoch != 2 || jobs.UpTable.Rows(s.Model.DB)["app.task"].Epoch != 2 {
			t.Fatalf("%s: it has %+v, %+v, and had %+v, %+v", missed, r, r.Cron, before, before.Cron)
		}
		// The same number with other words, or with a higher one that this cluster has
		// overtaken since, takes nothing back either.
		for epoch := uint64(2); epoch < 4; epoch++ {
			regiven(s, func(sh *wire.Share) { start := old; start.Epoch = epoch; sh.Cron = &start })
			s.Ticks(20, time.Second)
		}
		if r := record(s); s.Starts() != starts || !r.Cron.After.Equal(before.Cron.After) {
			t.Fatalf("%s: it has %+v, %+v", missed, r, r.Cron)
		}
		// Another cluster has it, and runs 00:40 and 00:50; then it is here again, with a
		// lower epoch than once.
		regiven(s, func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
		at(s, "00:52:00")
		regiven(s, func(sh *wire.Share) {
			sh.Cron = &wire.CronStart{Epoch: 1, Rule: before.Cron.Rule,
				After: before.Cron.After.Add(20 * time.Minute), N: 12}
		})
		s.Ticks(20, time.Second)
		if r := record(s); s.Starts() != starts || r.Run.N != 12 || r.Epoch != 1 ||
			!r.Cron.After.Equal(before.Cron.After.Add(20*time.Minute)) {
			t.Fatalf("%s: what another one began is begun again: %+v, %+v", missed, r, r.Cron)
		}
		at(s, "01:00:00")
		s.Ticks(10, time.Second)
		if r := record(s); r.Run.N != 13 || r.Run.Scheduled.Format("15:04") != "01:00" {
			t.Errorf("%s: it does not go on: %+v", missed, r)
		}
	}
}
