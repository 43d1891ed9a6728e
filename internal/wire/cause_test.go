package wire

import "testing"

// What a version before causes recorded is understood.
func TestCausesOfBefore(t *testing.T) {
	for why, want := range map[string]Cause{
		"completed": CauseCompleted, "completed, and another program since revision 3": "",
		"refused by its worker: no room": CauseRefused, "updating to revision 7": CauseUpdating,
		"moved to another worker, as its own is drained":           CauseDrained,
		"moved to another worker: makes room for shop.db.0":        CauseMadeRoom,
		"moved to another worker: 12 of 40 samples are over 20 ms": CauseMoved,
		"displaced by shop.db.0":                                   CauseDisplaced,
		"exit code 7, restart 2 of 5 in 180ms":                     CauseExited,
		"killed by signal KILL, the restart policy is never":       CauseExited,
		"killed for using more memory than its limit":              CauseExited,
		"ended while nobody was watching, restart 1 of 5 in 100ms": CauseExited,
		"not started: exit code 7":                                 "",
		"placed":                                                   "", "": "",
	} {
		if got := (Transition{Why: why}).Because(); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
	i := &Instance{State: Terminated, Reason: "completed"}
	if !i.Completed() {
		t.Error("a job that completed before is run again")
	}
	if i = (&Instance{State: Terminated, Reason: "completed", Cause: CauseDisplaced}); i.Completed() {
		t.Error("the text decides")
	}
	if i = (&Instance{State: Terminated, Cause: CauseCompleted, Reason: "done"}); !i.Completed() {
		t.Error("the text decides")
	}
}

// A record tells of its last exit by its cause, and by its text only if it has none.
func TestExited(t *testing.T) {
	check := &Exit{Code: 143, Why: "liveness tcp port 80: connection refused (3 of 3)"}
	for name, c := range map[string]struct {
		cause Cause
		text  string
		exit  *Exit
		want  bool
	}{
		"its cause":            {CauseExited, "gone", &Exit{}, true},
		"another cause":        {CauseReadiness, "exit code 7", &Exit{Code: 7}, false},
		"a version before":     {"", "exit code 7, restart 2 of 5 in 180ms", &Exit{Code: 7}, true},
		"a check ended it":     {"", check.Why + ", restart 1 of 5 in 180ms", check, true},
		"a check fails again":  {CauseStartup, check.Why, check, false},
		"a check, and no exit": {"", check.Why, nil, false},
		"no start":             {"", "not started: command not found: x", &Exit{Code: 7}, false},
		"nothing":              {"", "", &Exit{Code: 7}, false},
	} {
		i := Instance{Cause: c.cause, Reason: c.text}
		i.LastExit = c.exit
		if got := i.Exited(); got != c.want {
			t.Errorf("%s: the instance tells of its exit: %v", name, got)
		}
		if got := (Transition{Cause: c.cause, Why: c.text}).Exited(c.exit); got != c.want {
			t.Errorf("%s: the step tells of the exit: %v", name, got)
		}
	}
}
