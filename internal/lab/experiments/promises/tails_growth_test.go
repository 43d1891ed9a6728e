package promises

import (
	"math"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// constant answers, a hundred in each second from 10 s to 50 s, which take so long in each quarter.
func answersOf(took ...time.Duration) (out []bed.Answer) {
	for i := range 4000 {
		out = append(out, bed.Answer{At: 10*time.Second + time.Duration(i)*10*time.Millisecond, Took: took[i/1000]})
	}
	return out
}

func TestGrowthRequirements(t *testing.T) {
	const ms = time.Millisecond
	flat := answersOf(100*ms, 100*ms, 100*ms, 100*ms)
	for name, c := range map[string]struct {
		ours, theirs []bed.Answer
		over, mean   float64
		grows, slow  bool
	}{
		"alike":                {flat, flat, 1, 1, false, false},
		"ours grows":           {answersOf(80*ms, 90*ms, 100*ms, 110*ms), flat, 1.375, 0.95, true, false},
		"both grow":            {answersOf(50*ms, 60*ms, 70*ms, 80*ms), answersOf(50*ms, 60*ms, 70*ms, 80*ms), 1, 1, false, false},
		"ours falls":           {answersOf(120*ms, 100*ms, 90*ms, 90*ms), flat, 0.75, 1, false, false},
		"always slower":        {answersOf(120*ms, 120*ms, 120*ms, 120*ms), flat, 1, 1.2, false, true},
		"slow in between only": {answersOf(100*ms, 200*ms, 200*ms, 100*ms), flat, 1, 1.5, false, true},
		"nothing was answered": {nil, flat, math.NaN(), math.NaN(), true, true},
	} {
		g := growthOf(c.ours, c.theirs, 10*time.Second, 50*time.Second)
		near := func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-9 }
		if !near(g.over, c.over) || !near(g.mean, c.mean) {
			t.Errorf("%s: grows %v times as much, %v in the mean; want %v and %v", name, g.over, g.mean, c.over, c.mean)
		}
		e := &experiment.Env{Name: "x"}
		g.rows(e, g, nil, "fastest", "other")
		over, mean := e.Rows[8], e.Rows[9]
		if (over.Short != "") != c.grows || (mean.Short != "") != c.slow {
			t.Errorf("%s: %q, %q", name, over.Short, mean.Short)
		}
	}
}

// Requirements are in the rows of full runs.
func TestGrowthRows(t *testing.T) {
	const ms = time.Millisecond
	ours, theirs := answersOf(100*ms, 100*ms, 100*ms, 300*ms), answersOf(100*ms, 100*ms, 100*ms, 100*ms)
	g := growthOf(ours, theirs, 10*time.Second, 50*time.Second)
	for _, quick := range []bool{false, true} {
		e := &experiment.Env{Name: "x", Options: experiment.Options{Quick: quick}}
		g.rows(e, g, nil, "fastest", "other")
		got := map[string]int{}
		for _, r := range e.Rows {
			got[r.Metric]++
			if required := r.Metric != "mean_of_quarter"; (r.Short != "") != (required && !quick) {
				t.Errorf("quick %v: %+v", quick, r)
			}
		}
		last := e.Rows[3]
		if got["mean_of_quarter"] != 8 || got["growth_over"] != 1 || got["mean_over"] != 1 || *last.Expected != 300 || last.Measured != 300 {
			t.Errorf("%v, %+v", got, last)
		}
	}
}

func TestP99(t *testing.T) {
	var of []bed.Answer
	for i := range 200 {
		of = append(of, bed.Answer{Took: time.Duration(200-i) * time.Second})
	}
	if got := p99Took(of); got != 198 {
		t.Error(got)
	}
	if !math.IsNaN(p99Took(nil)) {
		t.Error("of nothing")
	}
}
