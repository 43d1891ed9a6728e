package wave

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var rules = Rules{Wave: 2, Soak: 10 * time.Second, Timeout: time.Minute, Recover: 20 * time.Second}

func at(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		held    string
		workers []Worker
		now     int
		want    string
	}{
		"the first wave":                {"", []Worker{{Name: "c", Phase: Waits}, {Name: "a", Phase: Waits}, {Name: "b", Phase: Waits, Away: true}}, 0, "begin a c"},
		"no second before the first":    {"", []Worker{{Name: "a", Phase: Passed}, {Name: "b", Phase: Begun}, {Name: "c", Phase: Waits}}, 5, "waits: worker b is being upgraded"},
		"one that is watched":           {"", []Worker{{Name: "a", Phase: Soaks}, {Name: "b", Phase: Waits}}, 4, "waits: worker a is watched for another 6s"},
		"one that was watched":          {"", []Worker{{Name: "a", Phase: Soaks}, {Name: "b", Phase: Waits}}, 10, "pass a, begin b"},
		"one that lacks something":      {"", []Worker{{Name: "a", Phase: Soaks, Lacks: "x is not ready"}, {Name: "b", Phase: Waits}}, 29, "waits: worker a: x is not ready"},
		"one that lacks it for long":    {"", []Worker{{Name: "a", Phase: Soaks, Lacks: "x is not ready"}, {Name: "b", Phase: Waits}}, 30, "fail a: it works, and what ran there does not: x is not ready, halt: worker a has failed"},
		"one that is worse":             {"", []Worker{{Name: "a", Phase: Soaks, Worse: "9 of 10"}, {Name: "b", Phase: Waits}}, 1, "fail a: it works, and more requests fail: 9 of 10, halt: worker a has failed"},
		"one that was worse is through": {"", []Worker{{Name: "a", Phase: Passed, Worse: "9 of 10"}, {Name: "b", Phase: Waits}}, 1, "begin b"},
		"one that takes too long":       {"", []Worker{{Name: "a", Phase: Begun}, {Name: "b", Phase: Waits}}, 60, "fail a: it does not say within 1m0s that it works, halt: worker a has failed"},
		"one that vanishes":             {"", []Worker{{Name: "a", Phase: Soaks, Away: true}, {Name: "b", Phase: Waits}}, 60, "fail a: it has not been heard for 1m0s since it was told, halt: worker a has failed"},
		"one that vanishes for a while": {"", []Worker{{Name: "a", Phase: Soaks, Away: true}, {Name: "b", Phase: Waits}}, 59, "waits: worker a is not heard"},
		"one has failed before":         {"", []Worker{{Name: "a", Phase: Failed}, {Name: "b", Phase: Waits}}, 0, "halt: worker a has failed"},
		"held":                          {"paused", []Worker{{Name: "a", Phase: Passed}, {Name: "b", Phase: Waits}}, 0, "waits: paused"},
		"held, and one is under way":    {"paused", []Worker{{Name: "a", Phase: Soaks}, {Name: "b", Phase: Waits}}, 12, "pass a, waits: paused"},
		"all are done":                  {"", []Worker{{Name: "a", Phase: Passed}, {Name: "b", Phase: Skipped}}, 0, "done"},
		"but one that is away":          {"", []Worker{{Name: "a", Phase: Passed}, {Name: "b", Phase: Waits, Away: true}}, 0, "waits: 1 of its workers are away: they are upgraded when they are back"},
		"the clock was set back":        {"", []Worker{{Name: "a", Phase: Begun, Since: at(600)}}, 0, "fail a: it does not say within 1m0s that it works, halt: worker a has failed"},
		"nobody":                        {"", nil, 0, "done"},
	} {
		for i := range c.workers {
			if c.workers[i].Since.IsZero() {
				c.workers[i].Since = at(0)
			}
		}
		if got := words(Decide(rules, c.held, c.workers, at(c.now))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func words(a Action) string {
	var out []string
	add := func(what string, list []string) {
		if len(list) > 0 {
			out = append(out, what+" "+strings.Join(list, " "))
		}
	}
	add("pass", a.Pass)
	add("begin", a.Begin)
	for name, why := range a.Fail {
		out = append(out, "fail "+name+": "+why)
	}
	if a.Halt != "" {
		out = append(out, "halt: "+a.Halt)
	}
	if a.Why != "" && a.Halt == "" {
		out = append(out, "waits: "+a.Why)
	}
	if a.Done {
		out = append(out, "done")
	}
	return strings.Join(out, ", ")
}

// Whatever workers do, no more than a wave are under way, nothing begins after one has
// failed, and where none fails all are done in the end.
func TestWavesHoldWhateverHappens(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		sound := seed%2 == 0
		workers := make([]Worker, 1+r.IntN(12))
		for i := range workers {
			workers[i] = Worker{Name: fmt.Sprintf("w%02d", i), Phase: Waits, Since: at(0)}
		}
		failed, done := false, false
		for s := range 2000 {
			a := Decide(rules, "", workers, at(s))
			if failed && len(a.Begin) > 0 {
				t.Fatalf("seed %d: %v begin after a failure", seed, a.Begin)
			}
			failed = failed || len(a.Fail) > 0
			underWay := 0
			for i := range workers {
				w := &workers[i]
				was := w.Phase
				switch {
				case slices.Contains(a.Begin, w.Name):
					w.Phase = Begun
				case slices.Contains(a.Pass, w.Name):
					w.Phase = Passed
				case a.Fail[w.Name] != "":
					w.Phase = Failed
				case w.Phase == Begun && r.IntN(5) == 0:
					w.Phase = Soaks
				case w.Phase == Begun && !sound && r.IntN(20) == 0:
					w.Phase, failed = Failed, true
				}
				if w.Phase != was {
					w.Since = at(s)
				}
				if w.Away = w.Phase != Passed && r.IntN(10) == 0; w.Phase == Soaks {
					w.Lacks = []string{"", "x"}[r.IntN(8)/7]
				}
				if w.Phase == Begun || w.Phase == Soaks {
					underWay++
				}
			}
			if underWay > rules.Wave {
				t.Fatalf("seed %d: %d are under way", seed, underWay)
			}
			done = a.Done
		}
		if sound && !done && !failed {
			t.Errorf("seed %d: not done: %+v", seed, workers)
		}
	}
}
