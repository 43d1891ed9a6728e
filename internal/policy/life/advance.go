package life

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// A history keeps the first keptFirst steps (how it began) and the latest, at
// most MaxHistory together.
const (
	MaxHistory = 32
	keptFirst  = 3
)

// Advance is AdvanceFor without a cause: no decision depends on the step.
func Advance(in wire.Instance, to wire.State, now time.Time, tier, why string) (wire.Instance, error) {
	return AdvanceFor(in, to, now, tier, "", why)
}

// AdvanceFor returns a copy of in that enters state to at time now, for a cause and a reason for
// people (may be empty), as decided by tier ("root", "cluster/<name>", "worker/<name>"). in is
// unchanged and shares nothing with the copy. Conditions without meaning in the new state are
// cleared: ready and draining outside Running; unreachable and asleep always, because each step is
// news of the instance. LastExit stays. The caller sets Worker, Cluster, Incarnation, Shadow, Moving,
// Leaving and Avoid. The error is an *IllegalError.
func AdvanceFor(in wire.Instance, to wire.State, now time.Time, tier string, cause wire.Cause, why string) (wire.Instance, error) {
	if !Allowed(in.State, to) {
		return wire.Instance{}, &IllegalError{From: in.State, To: to, ID: in.ID}
	}
	if in.State == wire.Running && to == wire.Terminated && !in.Draining {
		return wire.Instance{}, &IllegalError{From: in.State, To: to, ID: in.ID,
			Why: "it is not draining; set the condition and tell the routers first"}
	}
	out := Clone(in)
	now = now.Round(0) // a stored time has no monotonic reading
	out.State, out.Since, out.Cause, out.Reason = to, now, cause, why
	out.Unreachable, out.Asleep = false, false
	if to != wire.Running {
		out.Ready, out.Draining = false, false
	}
	out.History = append(out.History, wire.Transition{To: to, At: now, Tier: tier, Why: why, Cause: cause})
	if extra := len(out.History) - MaxHistory; extra > 0 {
		out.History = slices.Delete(out.History, keptFirst, keptFirst+extra)
	}
	return out, nil
}

// Clone returns a deep copy of a record.
func Clone(in wire.Instance) wire.Instance {
	in.History = slices.Clone(in.History)
	in.Avoid = slices.Clone(in.Avoid)
	if in.LastExit != nil {
		exit := *in.LastExit
		in.LastExit = &exit
	}
	if in.Shadow != nil {
		shadow := *in.Shadow
		in.Shadow = &shadow
	}
	if in.Moving != nil {
		moving := *in.Moving
		in.Moving = &moving
	}
	if in.Leaving != nil {
		leaving := *in.Leaving
		in.Leaving = &leaving
	}
	if in.Job != nil {
		job := *in.Job
		in.Job = &job
	}
	return in
}
