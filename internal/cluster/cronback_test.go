// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// scheduled gives the job to this cluster, every ten minutes, and is at 00:13 then, after its
// first run. disk is the backup of that moment.
func (s *sim) scheduled(after int, missed string) (disk map[string][]byte) {
	s.ends(2, nil)
	s.at("00:01:00")
	s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
	s.regiven(func(sh *wire.Share) { sh.Cron = &wire.CronStart{Epoch: 1} })
	s.at("00:10:00")
	s.at("00:13:00")
	s.wantTimes("00:10")
	s.ends(after, nil)
	return maps.Clone(s.disk)
}

// back restores a backup while the root has the shares and what it was told of the job last,
// and lets the cluster hear the shares.
func (s *sim) back(disk map[string][]byte) (last wire.JobReport) {
	s.t.Helper()
	given := maps.Clone(s.m.Given)
	last = *s.m.upJobs["app.task"]
	s.restored(disk)
	s.ticks(5, time.Second)
	s.hear(given)
	s.ticks(20, time.Second)
	if r := s.m.upJobs["app.task"]; r == nil || r.Restored.IsZero() || !strings.Contains(s.m.cronMessage(s.m.Shares["app.task"]), "asks the root") {
		s.t.Fatalf("it does not ask the root: %+v\n%s", r, s.dump())
	}
	return last
}

// answer is what the root gives a cluster that asks, of what it was told last.
func (s *sim) rootAnswers(last *wire.JobReport) {
	asked := s.m.upJobs["app.task"].Restored
	s.regiven(func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{
			Epoch: last.Epoch + 1, Restored: asked, Rule: last.Cron.Rule, After: last.Cron.After, Pending: last.Cron.Pending,
			N: last.Run.N, Restarted: last.Run.Restarted, Run: &last.Run,
		}
	})
}

// What a cluster began after the backup that it was restored from, and told the root, it does
// not begin again; what nobody began counts as missed.
func TestCronOfARestoredClusterBeginsNothingTwice(t *testing.T) {
	for missed, want := range map[string]string{api.MissedSkip: "00:10 00:30 01:00", api.MissedOnce: "00:10 00:30 00:50 01:00", api.MissedAll: "00:10 00:30 00:40 00:50 01:00"} {
		s := newSim(t, "w1", "w2")
		disk := s.scheduled(2, missed)
		s.at("00:20:00")
		s.at("00:30:00")
		s.wantTimes("00:10 00:20 00:30")
		starts := s.starts()
		s.now = s.now.Add(22 * time.Minute) // the old cluster is gone; 00:52
		last := s.back(disk)
		if s.wantTimes("00:10"); s.starts() != starts {
			t.Fatalf("%d were started before the root has answered", s.starts()-starts)
		}
		s.rootAnswers(&last)
		s.ticks(60, time.Second)
		s.at("01:00:00")
		s.ticks(10, time.Second)
		s.wantTimes(want) // 00:20 is in the past of the root alone
		r := s.record()
		if r.Cron.Missed != 2 || r.Run.N != 3+uint64(strings.Count(want, " ")-1) || !r.Held.IsZero() || r.Epoch != 2 || !s.m.upJobs["app.task"].Restored.IsZero() {
			t.Errorf("%s: %+v, %+v", missed, r, r.Cron)
		}
		if n := s.starts() - starts; n != 2*(strings.Count(want, " ")-1) {
			t.Errorf("%s: %d were started after the restore", missed, n)
		}
		// The recovery goes on or not: it does not ask again.
		s.restart()
		s.ticks(5, time.Second)
		if !s.record().Held.IsZero() {
			t.Errorf("%s: it asks again", missed)
		}
	}
}

// A run that goes on on the workers, and that the backup does not know, goes on: there are
// never two.
func TestCronOfARestoredClusterLeavesARunAlone(t *testing.T) {
	s := newSim(t, "w1", "w2")
	disk := s.scheduled(10000, api.MissedOnce)
	s.at("00:20:00")
	s.wantTimes("00:10 00:20")
	before := s.processes()
	last := s.back(disk)
	if now := s.processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.dump())
	}
	s.rootAnswers(&last)
	s.ticks(20, time.Second)
	if now, r := s.processes(), s.record(); !maps.Equal(now, before) || r.Run.N != 2 || !goesOn(&r.Run) {
		t.Fatalf("it ran\n%v and now\n%v: %+v\n%s", before, now, r, s.dump())
	}
	s.at("00:30:00")
	s.wantTimes("00:10 00:20")
	if r := s.record(); r.Cron.Skipped != 1 {
		t.Errorf("00:30 is not skipped: %+v", r.Cron)
	}
	for _, i := range s.m.Insts {
		if i.Service == "task" && (i.Job == nil || i.Job.Run != 2) {
			t.Errorf("%s is of %+v", i.ID, i.Job)
		}
	}
}

// A root that does not answer, as one of a version before, holds nothing up for long: what
// has passed counts as missed. Nor does one that has given the schedule to somebody else.
func TestCronOfARestoredClusterWithoutAnAnswer(t *testing.T) {
	for missed, want := range map[string]string{api.MissedSkip: "00:10", api.MissedOnce: "00:10 00:30"} {
		s := newSim(t, "w1", "w2")
		disk := s.scheduled(2, missed)
		s.at("00:20:00")
		s.at("00:30:00")
		s.now = s.now.Add(5 * time.Minute)
		s.back(disk)
		s.ticks(70, time.Second)
		s.wantTimes(want)
		if r := s.record(); r.Cron.Missed != 2 || !r.Held.IsZero() {
			t.Errorf("%s: %+v", missed, r)
		}
	}
	s := newSim(t, "w1", "w2")
	disk := s.scheduled(2, api.MissedOnce)
	s.at("00:20:00")
	s.back(disk)
	s.regiven(func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
	s.ticks(5, time.Second)
	if r := s.record(); !r.Held.IsZero() || r.Run.N != 1 {
		t.Errorf("it waits for an answer: %+v", r)
	}
	// A job that has lost its schedule is as all others, of which the root is asked too.
	s = newSim(t, "w1", "w2")
	disk = s.scheduled(2, api.MissedOnce)
	s.back(disk)
	s.job(2, nil)
	s.ticks(70, time.Second)
	if r := s.record(); !r.Held.IsZero() || r.Run.Outcome != wire.JobComplete || r.Cron != nil {
		t.Errorf("it is held up: %+v", r)
	}
}

// An answer that knows less than the backup takes nothing back.
func TestARootThatKnowsLess(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 5, 0, 0, time.UTC)
	at := func(minute int) time.Time { return now.Add(time.Duration(minute-5) * time.Minute) }
	rec := jobRecord{Run: wire.JobRun{N: 4, Began: at(0), Scheduled: at(0)}, Cron: &wire.CronState{Rule: "r", After: at(0), Missed: 3}, Epoch: 1}
	for _, run := range []*wire.JobRun{nil, {N: 3, Began: at(-10), Outcome: wire.JobComplete}, {N: 4, Began: at(0)}} {
		got := rec
		what := takeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "r", After: at(-10), N: 3, Run: run}, 10, now)
		if got.Run != rec.Run || got.Cron != rec.Cron || got.Epoch != 2 || len(got.Past) != 0 || !strings.Contains(what, "no run") {
			t.Errorf("%+v makes %+v, %q", run, got, what)
		}
	}
	got := rec
	takeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "r", After: at(3), N: 4, Run: &wire.JobRun{N: 4, Began: at(0), Outcome: wire.JobComplete}}, 10, now)
	if got.Run.Outcome != wire.JobComplete || len(got.Past) != 0 || !got.Cron.After.Equal(at(3)) || got.Cron.Missed != 3 {
		t.Errorf("the same run has ended: %+v, %+v", got, got.Cron)
	}
	got = rec
	takeBack(&got, "r", &wire.CronStart{Epoch: 2, Rule: "other", After: at(3), N: 5, Run: &wire.JobRun{N: 5, Began: at(2)}}, 10, now)
	if got.Run.N != 5 || len(got.Past) != 1 || got.Past[0].Outcome != wire.JobReplaced || got.Cron != rec.Cron {
		t.Errorf("of another schedule: %+v", got)
	}
}

// A root that was restored from a backup gives a schedule with a lower epoch, and with what it
// knew then: nothing is begun again for that, and nothing that was decided is taken back. What
// it gives later, another cluster having had the schedule, counts.
func TestCronOfARestoredRoot(t *testing.T) {
	for _, missed := range []string{api.MissedOnce, api.MissedAll, api.MissedSkip} {
		s := newSim(t, "w1", "w2")
		s.ends(2, nil)
		s.at("00:01:00")
		s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
		s.regiven(func(sh *wire.Share) { sh.Cron = &wire.CronStart{Epoch: 4} })
		s.at("00:10:00")
		s.at("00:20:00")
		s.at("00:30:00")
		s.wantTimes("00:10 00:20 00:30")
		before, starts := *s.record(), s.starts()
		old := wire.CronStart{
			Epoch: 2, Rule: before.Cron.Rule, After: before.Cron.After.Add(-25 * time.Minute), N: 9, Restarted: 0,
			Pending: []time.Time{before.Cron.After.Add(-30 * time.Minute), before.Cron.After.Add(-10 * time.Minute)},
		}
		s.regiven(func(sh *wire.Share) { start := old; sh.Cron = &start })
		s.restart()
		s.ticks(20, time.Second)
		s.wantTimes("00:10 00:20 00:30")
		r := s.record()
		if s.starts() != starts || r.Run.N != before.Run.N || !r.Cron.After.Equal(before.Cron.After) || r.Cron.Missed != before.Cron.Missed || r.Epoch != 2 || s.m.upJobs["app.task"].Epoch != 2 {
			t.Fatalf("%s: it has %+v, %+v, and had %+v, %+v", missed, r, r.Cron, before, before.Cron)
		}
		// The same number with other words, or with a higher one that this cluster has
		// overtaken since, takes nothing back either.
		for epoch := uint64(2); epoch < 4; epoch++ {
			s.regiven(func(sh *wire.Share) { start := old; start.Epoch = epoch; sh.Cron = &start })
			s.ticks(20, time.Second)
		}
		if r := s.record(); s.starts() != starts || !r.Cron.After.Equal(before.Cron.After) {
			t.Fatalf("%s: it has %+v, %+v", missed, r, r.Cron)
		}
		// Another cluster has it, and runs 00:40 and 00:50; then it is here again, with a
		// lower epoch than once.
		s.regiven(func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
		s.at("00:52:00")
		s.regiven(func(sh *wire.Share) {
			sh.Cron = &wire.CronStart{Epoch: 1, Rule: before.Cron.Rule, After: before.Cron.After.Add(20 * time.Minute), N: 12}
		})
		s.ticks(20, time.Second)
		if r := s.record(); s.starts() != starts || r.Run.N != 12 || r.Epoch != 1 || !r.Cron.After.Equal(before.Cron.After.Add(20*time.Minute)) {
			t.Fatalf("%s: what another one began is begun again: %+v, %+v", missed, r, r.Cron)
		}
		s.at("01:00:00")
		s.ticks(10, time.Second)
		if r := s.record(); r.Run.N != 13 || r.Run.Scheduled.Format("15:04") != "01:00" {
			t.Errorf("%s: it does not go on: %+v", missed, r)
		}
	}
}
