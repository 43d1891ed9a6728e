package advisor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/plugin"
)

// An answer is ranked by its scores, and then by name; one that failed, or is about another
// service, is a problem.
func TestAdvice(t *testing.T) {
	score := func(x float64) *float64 { return &x }
	verdicts := map[string]plugin.Verdict{"app.web": {
		Ranking: []plugin.Ranked{{ID: "w3", Score: score(1)}, {ID: "w2", Score: score(7)}, {ID: "w1", Score: score(1)}},
	}}
	for name, tc := range map[string]struct {
		service string
		err     error
		want    string
	}{
		"answered":        {"app.web", nil, "w2 w1 w3 "},
		"failed":          {"app.web", errors.New("no route"), "no route"},
		"another service": {"app.db", nil, "it did not answer for app.db"},
	} {
		a := advisor.Advice("sage", tc.service, "app.web.0", verdicts, tc.err, time.Second)
		got := ""
		for _, r := range a.Ranking {
			got += r.ID + " "
		}
		if got += a.Problem; got != tc.want || a.Plugin != "sage" || a.TookNs != time.Second.Nanoseconds() {
			t.Errorf("%s: %q, want %q: %+v", name, got, tc.want, a)
		}
	}
}

// Calls are counted by how they ended, and the last one that failed is kept.
func TestNote(t *testing.T) {
	p := &advisor.Advisor{Calls: map[string]uint64{}, Took: obs.Histogram{Counts: make([]uint64, len(obs.Bounds)+1)}}
	q := plugin.Question{Service: &plugin.Service{Instances: make([]string, 3)}, Candidates: make([]plugin.Candidate, 2)}
	p.Note(q, errors.New("refused"), time.Hour, time.Unix(1, 0))
	p.Note(q, &plugin.Error{Class: "late"}, time.Second, time.Unix(2, 0))
	p.Note(q, nil, 0, time.Unix(3, 0))
	if got := fmt.Sprint(p.Calls); got != fmt.Sprintf("map[%s:1 late:1 %s:1]", advisor.Answered, plugin.Unreachable) {
		t.Errorf("calls %s", got)
	}
	if p.Last.Result != advisor.Answered || p.Last.Instances != 3 || p.Last.Services != 1 || p.Last.Candidates != 2 {
		t.Errorf("the last is %+v", p.Last)
	}
	if p.Failure == nil || p.Failure.Result != "late" {
		t.Errorf("the last failure is %+v", p.Failure)
	}
	if n := p.Took.Counts; n[0] != 1 || n[len(n)-1] != 1 || p.Took.Sum != 3601 {
		t.Errorf("times %v, %v s", n, p.Took.Sum)
	}
}
