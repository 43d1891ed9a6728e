package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// cron delegates a job of two indexes with a schedule.
func cron(s *clustertest.Sim, c api.Cron, change func(*api.Service)) {
	s.Job(2, func(v *api.Service) {
		v.Cron = &c
		if change != nil {
			change(v)
		}
	})
	s.Tick(time.Second)
}

// given changes what the root says of the job.
func regiven(s *clustertest.Sim, change func(*wire.Share)) {
	sh := *s.Model.FromRoot["app.task"]
	change(&sh)
	s.Model.FromRoot["app.task"] = &sh
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app.task", &sh)
	s.Ticks(6, time.Second)
}

func record(s *clustertest.Sim) *jobs.Record { return jobs.Table.Rows(s.Model.DB)["app.task"] }

// runs are the times of which runs were begun, as they are remembered.
func times(s *clustertest.Sim) (out []string) {
	r := record(s)
	for _, run := range append(r.Past, r.Run) {
		if run.N > 0 && run.Scheduled.IsZero() {
			out = append(out, "asked")
		} else if run.N > 0 {
			out = append(out, run.Scheduled.Format("15:04"))
		}
	}
	return out
}

func wantTimes(s *clustertest.Sim, want string) {
	s.T.Helper()
	if got := strings.Join(times(s), " "); got != want {
		s.T.Fatalf("runs of %q, want %q: %+v\n%s", got, want, record(s), s.Dump())
	}
}

// at lets the clock reach a time of the day with nothing happening in between.
func at(s *clustertest.Sim, clock string) {
	s.T.Helper()
	to, err := time.Parse("15:04:05", clock)
	if err != nil {
		s.T.Fatal(err)
	}
	y, m, d := s.Now.UTC().Date()
	next := time.Date(y, m, d, to.Hour(), to.Minute(), to.Second(), 0, time.UTC)
	if next.Before(s.Now) {
		next = next.AddDate(0, 0, 1)
	}
	s.Tick(next.Sub(s.Now))
	s.Ticks(8, time.Second)
}

// A job with a schedule runs each time that is due, whoever is started again, and not when
// it is given.
func TestCronRuns(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 2, nil)
	at(s, "00:01:00")
	cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, nil)
	s.Ticks(3, time.Second)
	wantTimes(s, "")
	if v := views.ServiceView(s.Model, s.Model.Shares["app.task"]); v.Job.Next.Format("15:04") != "00:10" ||
		v.Message != "" {
		t.Errorf("before it is due: %+v", v)
	}
	for range 50 * 3 {
		s.Tick(20 * time.Second)
		s.Restart()
	}
	s.Ticks(5, time.Second)
	wantTimes(s, "00:10 00:20 00:30 00:40 00:50")
	r := record(s)
	for _, run := range append(r.Past, r.Run) {
		if run.Outcome != wire.JobComplete || run.Completed != 2 {
			t.Errorf("a run is %+v", run)
		}
	}
	if n := s.Starts(); n != 10 {
		t.Errorf("%d starts, want 2 for each of 5 runs", n)
	}
	if n := s.Model.Counters["app"]; n == nil || n.Completed != 5 || n.Missed != 0 {
		t.Errorf("it is counted as %+v", n)
	}
	if v := views.ServiceView(s.Model, s.Model.Shares["app.task"]); v.Job.Outcome != wire.JobComplete ||
		v.Job.Completed != 2 ||
		len(v.Job.Runs) != 5 || v.Job.Runs[0].N != 5 {
		t.Errorf("it is seen as %+v", v.Job)
	}
	// The next time that it looks at the job by itself.
	if l := jobs.NextTimer(s.Model, s.Now); l.At.UTC().Format("15:04:05") != "01:00:00" {
		t.Errorf("it looks again at %s", l.At)
	}
}

// What was missed is made up for as the policy says.
func TestCronMissed(t *testing.T) {
	for missed, want := range map[string]string{
		api.MissedSkip: "00:10", api.MissedOnce: "00:10 00:40", api.MissedAll: "00:10 00:20 00:30 00:40",
	} {
		s := clustertest.NewSim(t, "w1")
		ends(s, 2, nil)
		at(s, "00:01:00")
		cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: missed}, nil)
		at(s, "00:10:00")
		// Nobody is there for a while.
		s.Now = s.Now.Add(35 * time.Minute)
		s.Restart()
		s.Ticks(30, time.Second)
		wantTimes(s, want)
		if r := record(s); r.Cron.Missed != 3 || s.Model.Counters["app"].Missed != 3 {
			t.Errorf("%s: missed %d, counted %+v", missed, r.Cron.Missed, s.Model.Counters["app"])
		}
	}
}

// A time that comes while a run goes on is skipped, or the run ends for it.
func TestCronConcurrency(t *testing.T) {
	for concurrency, want := range map[string]string{api.CronForbid: "00:10", api.CronReplace: "00:10 00:20"} {
		s := clustertest.NewSim(t, "w1")
		ends(s, 10000, nil)
		at(s, "00:01:00")
		cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: concurrency, Missed: api.MissedOnce}, nil)
		at(s, "00:10:00")
		at(s, "00:20:00")
		s.Ticks(10, time.Second)
		wantTimes(s, want)
		if n := s.Running("task"); n != 2 {
			t.Errorf("%s: %d run", concurrency, n)
		}
		r := record(s)
		if concurrency == api.CronForbid && (r.Cron.Skipped != 1 || r.Run.Outcome != "") {
			t.Errorf("forbid: %+v", r)
		}
		if concurrency == api.CronReplace &&
			(len(r.Past) != 1 || r.Past[0].Outcome != wire.JobReplaced || r.Run.Outcome != "") {
			t.Errorf("replace: %+v", r)
		}
	}
}

// A run that is asked for begins at once, or when the one that goes on has ended; a run
// that is to end does, and the schedule goes on.
func TestCronRunAndStop(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 10000, nil)
	at(s, "00:01:00")
	cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, nil)
	regiven(s, func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 1, By: "ann", At: s.Now} })
	wantTimes(s, "asked")
	regiven(s, func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 2, By: "ann", At: s.Now} })
	wantTimes(s, "asked")
	regiven(s, func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 3, By: "bob", At: s.Now} })
	wantTimes(s, "asked asked") // the first was stopped, and the second had been waiting for it
	if r := record(s); r.Past[0].Outcome != wire.JobStopped || !strings.Contains(r.Past[0].Why, "bob") ||
		r.Run.Outcome != "" {
		t.Fatalf("%+v", r)
	}
	regiven(s, func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 4, At: s.Now} })
	if n := s.Running("task"); n != 0 || record(s).Run.Outcome != wire.JobStopped {
		t.Fatalf("%d run, %+v", n, record(s))
	}
	at(s, "00:10:00")
	wantTimes(s, "asked asked 00:10")
	// A mark that comes late is not about what began after it.
	regiven(s, func(sh *wire.Share) { sh.Stop = &wire.Restart{N: 5, At: s.Now.Add(-time.Hour)} })
	if r := record(s); r.Run.Outcome != "" || r.Stopped != 5 {
		t.Errorf("%+v", r)
	}
}

// Another program does not begin a run: the next one is of it. Another schedule begins
// with the moment in which it is given.
func TestCronChanges(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 2, nil)
	at(s, "00:01:00")
	c := api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	cron(s, c, nil)
	at(s, "00:10:00")
	cron(s, c, func(v *api.Service) { v.Command = []string{"other"} })
	s.Ticks(5, time.Second)
	wantTimes(s, "00:10")
	at(s, "00:20:00")
	wantTimes(s, "00:10 00:20")
	if r := record(s); r.Run.Program == r.Past[0].Program {
		t.Errorf("it is the program of before: %+v", r)
	}
	c.Schedule = "5 * * * *"
	cron(s, c, nil)
	s.Ticks(5, time.Second)
	wantTimes(s, "00:10 00:20")
	at(s, "01:05:00")
	wantTimes(s, "00:10 00:20 01:05")
	// Suspended times are not missed.
	cron(s, c, func(v *api.Service) { v.Job.Suspend = true })
	at(s, "02:05:00")
	cron(s, c, nil)
	s.Ticks(5, time.Second)
	wantTimes(s, "00:10 00:20 01:05")
	// Without a schedule it is a job as all others, which has run with this program.
	s.Job(2, nil)
	s.Ticks(8, time.Second)
	if r := record(s); r.Cron != nil || r.Run.Outcome != wire.JobComplete || r.Run.N != 3 {
		t.Errorf("%+v", r)
	}
}

// A cluster that takes a schedule over goes on where the other one was, once.
func TestCronTakenOver(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 2, nil)
	at(s, "00:25:00")
	y, m, d := s.Now.UTC().Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	s.Job(2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	})
	regiven(s, func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{Epoch: 2, Rule: sh.Spec.Cron.Rule(), After: day, Pending: []time.Time{day}, N: 7,
			Restarted: 4}
	})
	s.Ticks(20, time.Second)
	s.Restart()
	at(s, "00:30:00")
	if wantTimes(s, "00:20 00:30"); record(s).Run.N != 9 || record(s).Run.Restarted != 4 {
		t.Fatalf("%+v", record(s))
	}
	// The schedule is given to somebody else: what runs goes on, nothing begins.
	regiven(s, func(sh *wire.Share) { sh.Cron = &wire.CronStart{Elsewhere: true} })
	at(s, "00:40:00")
	wantTimes(s, "00:20 00:30")
}

// Whatever a cluster is given of times to come, its runs go on, and what it decides is written.
func TestCronTakenOverFromTheFuture(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 2, nil)
	at(s, "00:25:00")
	s.Job(2, func(v *api.Service) {
		v.Cron = &api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	})
	late := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -23*3600-59*60))
	regiven(s, func(sh *wire.Share) {
		sh.Cron = &wire.CronStart{Epoch: 2, Rule: sh.Spec.Cron.Rule(), After: late, Pending: []time.Time{late}}
	})
	s.Ticks(20, time.Second)
	wantTimes(s, "")
	s.Restart()
	at(s, "03:00:00")
	wantTimes(s, "03:00")
}

// No more runs that have ended are remembered than the descriptor says.
func TestCronKeep(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 2, nil)
	at(s, "00:01:00")
	keep := 2
	cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce, Keep: &keep}, nil)
	for _, clock := range []string{"00:10:00", "00:20:00", "00:30:00", "00:40:00"} {
		at(s, clock)
	}
	wantTimes(s, "00:20 00:30 00:40")
}

// A job that is changed while it runs: another program is another run, after what runs of
// the one before has ended; other terms count at once and run nothing again. With a
// schedule what goes on is left alone.
func TestAJobIsChangedWhileItRuns(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 10000, nil)
	s.Job(4, nil)
	s.Ticks(4, time.Second)
	if s.Running("task") != 2 {
		t.Fatalf("%d run\n%s", s.Running("task"), s.Dump())
	}
	s.Job(4, func(v *api.Service) { v.Job.Parallelism = 3 })
	s.Ticks(4, time.Second)
	if r := record(s); s.Running("task") != 3 || r.Run.N != 1 || s.Starts() != 3 {
		t.Errorf("with other terms %d run, run %d, %d starts", s.Running("task"), r.Run.N, s.Starts())
	}
	other := func(v *api.Service) { v.Command = []string{"other"} }
	s.Job(4, other)
	for range 10 {
		s.Tick(time.Second)
		if n := s.Running("task"); n > 3 {
			t.Fatalf("%d run at a time\n%s", n, s.Dump())
		}
	}
	r := record(s)
	if r.Run.N != 2 || len(r.Past) != 1 || r.Past[0].Outcome != wire.JobReplaced || s.Running("task") != 2 {
		t.Fatalf("with another program %d run, %+v\n%s", s.Running("task"), r, s.Dump())
	}
	for _, o := range s.Model.Orders {
		if !o.Stop && o.Spec.Command[0] != "other" {
			t.Errorf("%s is of the program of before", o.ID)
		}
	}
	ends(s, 2, nil)
	s.Ticks(20, time.Second)
	if r := record(s); r.Run.Outcome != wire.JobComplete || r.Run.Completed != 4 {
		t.Errorf("%+v", r.Run)
	}
	// With a schedule.
	ends(s, 10000, nil)
	at(s, "00:01:00")
	c := api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	cron(s, c, other)
	at(s, "00:10:00")
	before := s.Starts()
	cron(s, c, nil)
	s.Ticks(5, time.Second)
	if n := s.Running("task"); n != 2 || s.Starts() != before || record(s).Run.Outcome != "" {
		t.Errorf("%d run, %d starts more, %+v", n, s.Starts()-before, record(s).Run)
	}
}

// A job with a named volume has it in each run: its instances stay where the data is.
func TestCronWithAVolume(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	ends(s, 2, nil)
	at(s, "00:01:00")
	cron(s, api.Cron{Schedule: "*/10 * * * *", Concurrency: api.CronForbid, Missed: api.MissedOnce}, clustertest.Volume)
	home := map[string]string{}
	for _, clock := range []string{"00:10:00", "00:20:00", "00:30:00"} {
		at(s, clock)
		for _, id := range []string{"app.task.0", "app.task.1"} {
			i := s.Instance(id)
			if i.Pinned == "" || home[id] != "" && i.Worker != home[id] {
				t.Errorf("%s at %s is on %s, pinned to %q, and was on %q", id, clock, i.Worker, i.Pinned, home[id])
			}
			home[id] = i.Worker
		}
	}
	wantTimes(s, "00:10 00:20 00:30")
}
