// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// cron delegates a job of two indexes with a schedule.
func (s *sim) cron(c api.Cron, change func(*api.Service)) {
	s.job(2, func(v *api.Service) {
		v.Cron = &c
		if change != nil {
			change(v)
		}
	})
	s.tick(time.Second)
}

// given changes what the root says of the job.
func (s *sim) regiven(change func(*wire.Share)) {
	sh := *s.m.Given["app.task"]
	change(&sh)
	s.m.Given["app.task"] = &sh
	s.m.effect()
	s.store(state.KeyShare+"app.task", &sh)
	s.ticks(6, time.Second)
}

func (s *sim) record() *jobRecord { return s.m.jobs["app.task"] }

// runs are the times of which runs were begun, as they are remembered.
func (s *sim) times() (out []string) {
	r := s.record()
	for _, run := range append(r.Past, r.Run) {
		if run.N > 0 && run.Scheduled.IsZero() {
			out = append(out, "asked")
		} else if run.N > 0 {
			out = append(out, run.Scheduled.Format("15:04"))
		}
	}
	return out
}

func (s *sim) wantTimes(want string) {
	s.t.Helper()
	if got := strings.Join(s.times(), " "); got != want {
		s.t.Fatalf("runs of %q, want %q: %+v\n%s", got, want, s.record(), s.dump())
	}
}

// at lets the clock reach a time of the day with nothing happening in between.
func (s *sim) at(clock string) {
	s.t.Helper()
	to, err := time.Parse("15:04:05", clock)
	if err != nil {
		s.t.Fatal(err)
	}
	y, m, d := s.now.UTC().Date()
	next := time.Date(y, m, d, to.Hour(), to.Minute(), to.Second(), 0, time.UTC)
	if next.Before(s.now) {
		next = next.AddDate(0, 0, 1)
	}
	s.tick(next.Sub(s.now))
	s.ticks(8, time.Second)
}

// A job with a schedule runs each time that is due, whoever is started again, and not when
// it is given.
func TestCronRuns(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(2, nil)
	s.at("00:01:00")
	s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, nil)
	s.ticks(3, time.Second)
	s.wantTimes("")
	if v := s.m.serviceView(s.m.Shares["app.task"]); v.Job.Next.Format("15:04") != "00:10" || v.Message != "" {
		t.Errorf("before it is due: %+v", v)
	}
	for range 50 * 3 {
		s.tick(20 * time.Second)
		s.restart()
	}
	s.ticks(5, time.Second)
	s.wantTimes("00:10 00:20 00:30 00:40 00:50")
	r := s.record()
	for _, run := range append(r.Past, r.Run) {
		if run.Outcome != wire.JobComplete || run.Completed != 2 {
			t.Errorf("a run is %+v", run)
		}
	}
	if n := s.starts(); n != 10 {
		t.Errorf("%d starts, want 2 for each of 5 runs", n)
	}
	if n := s.m.Tallies["app"]; n == nil || n.Completed != 5 || n.Missed != 0 {
		t.Errorf("it is counted as %+v", n)
	}
	if v := s.m.serviceView(s.m.Shares["app.task"]); v.Job.Outcome != wire.JobComplete || v.Job.Completed != 2 || len(v.Job.Runs) != 5 || v.Job.Runs[0].N != 5 {
		t.Errorf("it is seen as %+v", v.Job)
	}
	// The next time that it looks at the job by itself.
	if l := s.m.lookJobs(s.now); l.at.UTC().Format("15:04:05") != "01:00:00" {
		t.Errorf("it looks again at %s", l.at)
	}
}

// What was missed is made up for as the policy says.
func TestCronMissed(t *testing.T) {
	for missed, want := range map[string]string{
		api.MissedSkip: "00:10", api.MissedOnce: "00:10 00:40", api.MissedAll: "00:10 00:20 00:30 00:40",
	} {
		s := newSim(t, "w1")
		s.ends(2, nil)
		s.at("00:01:00")
		s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
		s.at("00:10:00")
		// Nobody is there for a while.
		s.now = s.now.Add(35 * time.Minute)
		s.restart()
		s.ticks(30, time.Second)
		s.wantTimes(want)
		if r := s.record(); r.Cron.Missed != 3 || s.m.Tallies["app"].Missed != 3 {
			t.Errorf("%s: missed %d, counted %+v", missed, r.Cron.Missed, s.m.Tallies["app"])
		}
	}
}

// A time that comes while a run goes on is skipped, or the run ends for it.
func TestCronConcurrency(t *testing.T) {
	for concurrency, want := range map[string]string{api.CronForbid: "00:10", api.CronReplace: "00:10 00:20"} {
		s := newSim(t, "w1")
		s.ends(10000, nil)
		s.at("00:01:00")
		s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: concurrency, Missed: api.MissedOnce}, nil)
		s.at("00:10:00")
		s.at("00:20:00")
		s.ticks(10, time.Second)
		s.wantTimes(want)
		if n := s.running("task"); n != 2 {
			t.Errorf("%s: %d run", concurrency, n)
		}
		r := s.record()
		if concurrency == api.CronForbid && (r.Cron.Skipped != 1 || r.Run.Outcome != "") {
			t.Errorf("forbid: %+v", r)
		}
		if concurrency == api.CronReplace && (len(r.Past) != 1 || r.Past[0].Outcome != wire.JobReplaced || r.Run.Outcome != "") {
			t.Errorf("replace: %+v", r)
		}
	}
}

// A run that is asked for begins at once, or when the one that goes on has ended; a run
// that is to end does, and the schedule goes on.
func TestCronRunAndStop(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(10000, nil)
	s.at("00:01:00")
	s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, nil)
	s.regiven(func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 1, By: "ann", At: s.now} })
	s.wantTimes("asked")
	s.regiven(func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 2, By: "ann", At: s.now} })
	s.wantTimes("asked")
	s.regiven(func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 3, By: "bob", At: s.now} })
	s.wantTimes("asked asked") // the first was stopped, and the second had been waiting for it
	if r := s.record(); r.Past[0].Outcome != wire.JobStopped || !strings.Contains(r.Past[0].Why, "bob") || r.Run.Outcome != "" {
		t.Fatalf("%+v", r)
	}
	s.regiven(func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 4, At: s.now} })
	if n := s.running("task"); n != 0 || s.record().Run.Outcome != wire.JobStopped {
		t.Fatalf("%d run, %+v", n, s.record())
	}
	s.at("00:10:00")
	s.wantTimes("asked asked 00:10")
	// A mark that comes late is not about what began after it.
	s.regiven(func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 5, At: s.now.Add(-time.Hour)} })
	if r := s.record(); r.Run.Outcome != "" || r.Stopped != 5 {
		t.Errorf("%+v", r)
	}
}

// Another program does not begin a run: the next one is of it. Another schedule begins
// with the moment in which it is given.
func TestCronChanges(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(2, nil)
	s.at("00:01:00")
	c := api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	s.cron(c, nil)
	s.at("00:10:00")
	s.cron(c, func(v *api.Service) { v.Command = []string{"other"} })
	s.ticks(5, time.Second)
	s.wantTimes("00:10")
	s.at("00:20:00")
	s.wantTimes("00:10 00:20")
	if r := s.record(); r.Run.Program == r.Past[0].Program {
		t.Errorf("it is the program of before: %+v", r)
	}
	c.Schedule = "5 * * * *"
	s.cron(c, nil)
	s.ticks(5, time.Second)
	s.wantTimes("00:10 00:20")
	s.at("01:05:00")
	s.wantTimes("00:10 00:20 01:05")
	// Suspended times are not missed.
	s.cron(c, func(v *api.Service) { v.Job.Suspend = true })
	s.at("02:05:00")
	s.cron(c, nil)
	s.ticks(5, time.Second)
	s.wantTimes("00:10 00:20 01:05")
	// Without a schedule it is a job as all others, which has run with this program.
	s.job(2, nil)
	s.ticks(8, time.Second)
	if r := s.record(); r.Cron != nil || r.Run.Outcome != wire.JobComplete || r.Run.N != 3 {
		t.Errorf("%+v", r)
	}
}

// A cluster that takes a schedule over goes on where the other one was, once.
func TestCronTakenOver(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(2, nil)
	s.at("00:25:00")
	y, m, d := s.now.UTC().Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	s.job(2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	})
	s.regiven(func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{Epoch: 2, Rule: sh.Spec.Cron.Rule(), After: day, Pending: []time.Time{day}, N: 7, Restarted: 4}
	})
	s.ticks(20, time.Second)
	s.restart()
	s.at("00:30:00")
	if s.wantTimes("00:20 00:30"); s.record().Run.N != 9 || s.record().Run.Restarted != 4 {
		t.Fatalf("%+v", s.record())
	}
	// The schedule is given to somebody else: what runs goes on, nothing begins.
	s.regiven(func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
	s.at("00:40:00")
	s.wantTimes("00:20 00:30")
}

// Whatever a cluster is given of times to come, its runs go on, and what it decides is written.
func TestCronTakenOverFromTheFuture(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(2, nil)
	s.at("00:25:00")
	s.job(2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	})
	late := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600-59*60))
	s.regiven(func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{Epoch: 2, Rule: sh.Spec.Cron.Rule(), After: late, Pending: []time.Time{late}}
	})
	s.ticks(20, time.Second)
	s.wantTimes("")
	s.restart()
	s.at("03:00:00")
	s.wantTimes("03:00")
}

// No more runs that have ended are remembered than the descriptor says.
func TestCronKeep(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(2, nil)
	s.at("00:01:00")
	keep := 2
	s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce, Keep: &keep}, nil)
	for _, clock := range []string{"00:10:00", "00:20:00", "00:30:00", "00:40:00"} {
		s.at(clock)
	}
	s.wantTimes("00:20 00:30 00:40")
}

// A job that is changed while it runs: another program is another run, after what runs of
// the one before has ended; other terms count at once and run nothing again. With a
// schedule what goes on is left alone.
func TestAJobIsChangedWhileItRuns(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(10000, nil)
	s.job(4, nil)
	s.ticks(4, time.Second)
	if s.running("task") != 2 {
		t.Fatalf("%d run\n%s", s.running("task"), s.dump())
	}
	s.job(4, func(v *api.Service) { v.Job.Parallelism = 3 })
	s.ticks(4, time.Second)
	if r := s.record(); s.running("task") != 3 || r.Run.N != 1 || s.starts() != 3 {
		t.Errorf("with other terms %d run, run %d, %d starts", s.running("task"), r.Run.N, s.starts())
	}
	other := func(v *api.Service) { v.Command = []string{"other"} }
	s.job(4, other)
	for range 10 {
		s.tick(time.Second)
		if n := s.running("task"); n > 3 {
			t.Fatalf("%d run at a time\n%s", n, s.dump())
		}
	}
	r := s.record()
	if r.Run.N != 2 || len(r.Past) != 1 || r.Past[0].Outcome != wire.JobReplaced || s.running("task") != 2 {
		t.Fatalf("with another program %d run, %+v\n%s", s.running("task"), r, s.dump())
	}
	for _, o := range s.m.Orders {
		if !o.Stop && o.Spec.Command[0] != "other" {
			t.Errorf("%s is of the program of before", o.ID)
		}
	}
	s.ends(2, nil)
	s.ticks(20, time.Second)
	if r := s.record(); r.Run.Outcome != wire.JobComplete || r.Run.Completed != 4 {
		t.Errorf("%+v", r.Run)
	}
	// With a schedule.
	s.ends(10000, nil)
	s.at("00:01:00")
	c := api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	s.cron(c, other)
	s.at("00:10:00")
	before := s.starts()
	s.cron(c, nil)
	s.ticks(5, time.Second)
	if n := s.running("task"); n != 2 || s.starts() != before || s.record().Run.Outcome != "" {
		t.Errorf("%d run, %d starts more, %+v", n, s.starts()-before, s.record().Run)
	}
}

// A job with a named volume has it in each run: its instances stay where the data is.
func TestCronWithAVolume(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.ends(2, nil)
	s.at("00:01:00")
	s.cron(api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, volume)
	home := map[string]string{}
	for _, clock := range []string{"00:10:00", "00:20:00", "00:30:00"} {
		s.at(clock)
		for _, id := range []string{"app.task.0", "app.task.1"} {
			i := s.inst(id)
			if i.Pinned == "" || home[id] != "" && i.Worker != home[id] {
				t.Errorf("%s at %s is on %s, pinned to %q, and was on %q", id, clock, i.Worker, i.Pinned, home[id])
			}
			home[id] = i.Worker
		}
	}
	s.wantTimes("00:10 00:20 00:30")
}
