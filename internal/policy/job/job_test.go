package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

var epoch = time.Unix(1e9, 0)

func TestAdmit(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	all := []Index{{0, Completed, time.Time{}}, {1, Runs, time.Time{}}, {2, Waits, at(5)}, {3, Waits, time.Time{}}, {4, Failed, time.Time{}}, {5, Waits, time.Time{}}}
	for _, c := range []struct {
		parallel int
		now      time.Time
		start    []int
		wake     time.Time
	}{
		{0, at(0), nil, time.Time{}},
		{1, at(0), nil, time.Time{}},
		{2, at(0), []int{3}, at(5)},
		{3, at(0), []int{3, 5}, at(5)},
		{9, at(0), []int{3, 5}, at(5)},
		{2, at(5), []int{2}, time.Time{}},
		{2, at(-3600), []int{2}, time.Time{}}, // the clock was set back
	} {
		start, wake := Admit(c.parallel, all, time.Minute, c.now)
		if !slices.Equal(start, c.start) || !wake.Equal(c.wake) {
			t.Errorf("%d at %v: %v and %v, want %v and %v", c.parallel, c.now, start, wake, c.start, c.wake)
		}
	}
}

func TestParallel(t *testing.T) {
	four := 4
	s := &wire.Share{Spec: &api.Service{Job: &api.Job{Parallelism: 7}}}
	if n := Parallel(s); n != 7 {
		t.Error(n)
	}
	if s.Parallel = &four; Parallel(s) != 4 {
		t.Error("what the root divides does not count")
	}
	if s.Spec.Job.Suspend = true; Parallel(s) != 0 {
		t.Error("a suspended job starts something")
	}
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		parallel int
		weights  []int
		want     []int
	}{
		{4, []int{75, 25}, []int{3, 1}}, {2, []int{99, 1}, []int{1, 1}}, {1, []int{1, 99}, []int{1, 0}}, {3, []int{0, 5}, []int{0, 3}}, {3, []int{0, 0}, []int{0, 0}},
		{10, []int{1, 1, 1}, []int{4, 3, 3}},
	} {
		if got := Divide(c.parallel, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("%d by %v: %v, want %v", c.parallel, c.weights, got, c.want)
		}
	}
}

// A whole job with a random world: it ends as it should, within its bounds.
func TestAJobKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, parallel := rapid.IntRange(1, 8).Draw(t, "total"), rapid.IntRange(1, 4).Draw(t, "parallel")
		retries := rapid.IntRange(0, 3).Draw(t, "retries")
		rules := &api.Job{Completions: total, Parallelism: parallel, Retries: &retries, Deadline: api.Duration(rapid.IntRange(0, 200).Draw(t, "deadline")) * 1e9}
		now, run := epoch, wire.JobRun{N: 1, Began: epoch}
		all, tries, starts := make([]Index, total), make([]wire.JobTry, total), make([]int, total)
		for k := range all {
			all[k].Ordinal = k
		}
		jumped := time.Duration(0)
		for step := 0; run.Outcome == ""; step++ {
			if step > 2000 {
				t.Fatalf("it does not end: %+v", all)
			}
			start, _ := Admit(parallel, all, 8*time.Second, now)
			for _, o := range start {
				if all[o].Phase != Waits {
					t.Fatalf("index %d is started although it is %d", o, all[o].Phase)
				}
				all[o].Phase = Runs
				if starts[o]++; starts[o] > retries+1 {
					t.Fatalf("index %d is started %d times, and may be retried %d times", o, starts[o], retries)
				}
			}
			active := 0
			for k := range all {
				if all[k].Phase == Runs {
					if active++; active > parallel {
						t.Fatal("too many run")
					}
					switch rapid.IntRange(0, 3).Draw(t, "end") {
					case 0:
						all[k].Phase = Completed
					case 1:
						var why string
						tries[k], why = Again(rules, tries[k], "exit code 1", min(time.Second<<tries[k].Failed, 8*time.Second), now)
						if !strings.HasPrefix(why, "exit code 1") {
							t.Fatal(why)
						}
						if all[k].Phase, all[k].Next = Waits, tries[k].Next; tries[k].Over != "" {
							all[k].Phase = Failed
						}
					}
				}
			}
			now = now.Add(time.Second)
			if rapid.IntRange(0, 19).Draw(t, "jump") == 0 {
				d := time.Duration(rapid.IntRange(-100, 100).Draw(t, "by")) * time.Second
				now, jumped = now.Add(d), jumped+d
			}
			before := run
			run, _ = Judge(rules, run, all, total, now)
			if before.Outcome != "" && run != before {
				t.Fatal("what is over changes")
			}
		}
		n := map[Phase]int{}
		for _, x := range all {
			n[x.Phase]++
		}
		late := rules.Deadline > 0 && !now.Before(epoch.Add(rules.Deadline.Std()))
		switch {
		case run.Completed != n[Completed] || run.Failed != n[Failed]:
			t.Fatalf("%+v of %+v", run, all)
		case run.Outcome == wire.JobComplete && n[Completed] != total, run.Outcome == wire.JobFailed && n[Completed] == total,
			run.Outcome == wire.JobFailed && n[Failed] == 0 && !late, n[Waits]+n[Runs] > 0 && !late:
			t.Fatalf("it is %s with %v", run.Outcome, n)
		}
	})
}
