package rpc

import "testing"

// Only what is one of several answers is bounded.
func TestBound(t *testing.T) {
	for name, c := range map[string]struct {
		q          Ask
		max, there int // of the log, of the output
	}{
		"output":             {Ask{What: "exec", Exec: &ExecAsk{Output: &ExecOffset{}}}, 0, 100},
		"less output":        {Ask{What: "exec", Exec: &ExecAsk{Output: &ExecOffset{Max: 7}}}, 0, 7},
		"a log that goes on": {Ask{What: "logs", Offset: 5, Max: 1000}, 100, 0},
		"little of a log":    {Ask{What: "logs", Offset: 5, Max: 9}, 9, 0},
		"the last lines":     {Ask{What: "logs", Offset: -10, Max: 1000}, 1000, 0},
		"since a time":       {Ask{What: "logs", SinceMs: 1, Max: 1000}, 1000, 0},
		"something else":     {Ask{What: "top"}, 0, 0},
	} {
		c.q.Bound(100)
		there := 0
		if c.q.Exec != nil {
			there = c.q.Exec.Output.Max
		}
		if c.q.Max != c.max || there != c.there {
			t.Errorf("%s: %d and %d, want %d and %d", name, c.q.Max, there, c.max, c.there)
		}
	}
}
