package instances

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Times of the loop.
const (

	// silence beyond which a worker is suspect, in its own λ.
	silence = 2.5
	// gatheringTime is how long a new process waits to hear from all workers: after that
	// those that were not heard are suspect.
	gatheringTime = time.Duration(silence * float64(rpc.MaxHeartbeat))
	// opening is how long a new process places nothing while it has not heard from all
	// workers: one of them may prove that this cluster is an older copy of itself.
	opening = 5 * time.Second
	// ForgiveAfter is how long a worker on which an instance failed for good is
	// avoided if there is no other.
	ForgiveAfter = time.Minute
)

// Wanted says whether a share asks for instance i.
func Wanted(t *state.Tx, i *wire.Instance) bool {
	s := t.Model.Shares[i.App+"."+i.Service]
	if s == nil {
		return false
	}
	before := 0 // ordinals of the share that come first
	for _, sp := range s.Ordinals {
		if i.Ordinal >= sp.From && i.Ordinal < sp.To {
			return before+i.Ordinal-sp.From < s.Min
		}
		before += max(0, sp.To-sp.From)
	}
	return false
}

// Avoid notes that a program of an instance failed for good on a worker. Where another one
// failed before, that is forgotten.
func Avoid(i *wire.Instance, program, worker string) {
	if i.FailedProgram != program {
		i.Avoid, i.FailedProgram = nil, program
	}
	i.Avoid = state.AppendOnce(i.Avoid, worker)
}

// otherFailed says whether it was another program than that of s that failed.
func otherFailed(t *state.Tx, i *wire.Instance, s *wire.Share) bool {
	return s != nil && i.FailedProgram != "" && i.FailedProgram != t.Program(s.Spec)
}

// Avoided are the workers on which the program of s has failed as instance i.
func Avoided(t *state.Tx, i *wire.Instance, s *wire.Share) []string {
	if otherFailed(t, i, s) {
		return nil
	}
	return i.Avoid
}

// Failure is what a worker said when the instance failed there last, "" if none
// did with the program that it is to run: without it nobody would learn why its workers
// are avoided.
func Failure(t *state.Tx, i *wire.Instance) string { return failed(t, i).Why }

// failed is the step by which a worker gave the instance up last, with the program that it is
// to run; the zero one for none.
func failed(t *state.Tx, i *wire.Instance) wire.Transition {
	if otherFailed(t, i, rollouts.ShareFor(t, i)) {
		return wire.Transition{}
	}
	for _, h := range slices.Backward(i.History) {
		if h.To == wire.Failed && strings.HasPrefix(h.Tier, "worker/") {
			return h
		}
	}
	return wire.Transition{}
}

// FailedFor is why the program that an instance is to run has failed here, "" where it has
// not, or is tried on another worker for the first time.
func FailedFor(t *state.Tx, i *wire.Instance, s *wire.Share) string {
	if s == nil || i.Ready || i.Draining {
		return ""
	}
	nowhere := i.State == wire.Failed || i.State == wire.Requested
	switch avoided := len(Avoided(t, i, s)); {
	case avoided >= 2, avoided > 0 && nowhere:
		if h := failed(t, i); h.Because() != wire.CauseRefused {
			return h.Why
		}
	case i.State == wire.Failed && s.Spec.Job == nil && state.RestartNever(s, i):
		return i.Reason
	}
	return ""
}

// Gathering reports whether this process started lately and has not yet heard from all the
// workers that are registered, or it hears of nobody.
func Gathering(m *state.Model, now time.Time) bool {
	if m.Alone {
		return true
	}
	if now.Sub(m.Waits) > gatheringTime {
		return false
	}
	for _, w := range m.Workers {
		if !w.EverHeard {
			return true
		}
	}
	return false
}

// Unsaid reports whether nothing is placed yet. A new process waits a moment for the workers, since one of
// them may prove that this cluster is an older copy of itself; one that recovers waits
// until they have said what they have.
func Unsaid(m *state.Model, now time.Time) bool {
	recovers := m.Mark() != nil
	switch {
	case recovers && m.Alone:
		return true
	case recovers && now.Sub(m.Waits) > gatheringTime, !recovers && now.Sub(m.Started) >= opening:
		return false
	}
	for _, w := range m.Workers {
		if !w.EverHeard || recovers && w.Inbox.Ack().Inc == "" {
			return true
		}
	}
	return false
}

// Failed notes why a move came to nothing. The worker is avoided, for a while,
// where it was its doing.
func Failed(i *wire.Instance, why string, blame bool, now time.Time) {
	m := *i.Moving
	if blame {
		Avoid(i, m.Program, m.Worker)
	}
	m.Failed, m.Since = why, now.Round(0)
	i.Moving = &m
}

// Trouble is what keeps an instance from running, and which; "" where nothing does.
func Trouble(t *state.Tx, i *wire.Instance) string {
	if i.Draining || i.Reason == "" || i.State == wire.Running || i.State == wire.Terminated ||
		i.Because() == wire.CauseAsleep {
		return ""
	}
	why := i.Reason
	if was := Failure(t, i); was != "" && was != why {
		why += "; it failed before: " + was
	}
	return state.Cut(i.ID+": "+why, wire.MaxShortWords)
}
