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
