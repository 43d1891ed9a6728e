package moving

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Moving an instance off a worker that is being drained: the next incarnation is
// started elsewhere beside the one that runs (Instance.Moving), takes over when it
// is ready, and the one before ends when the routers know (Instance.Leaving).

const (
	// MovesAtOnce of one service, so that its room is not doubled.
	MovesAtOnce = 1
	// LeaveAfter is how long one that was taken over from goes on at least, for
	// routers of other clusters to hear of it; LeaveBy how long it waits at most
	// for workers of this one that do not answer.
	LeaveAfter = time.Second
	// LeaveBy is how long an instance that has moved may take to end.
	LeaveBy = 10 * time.Second
)

// Movable reports whether the instance runs, or is about to, where nothing is to run, or where its
// agreement is violated.
func Movable(t *state.Tx, i *wire.Instance) bool {
	if state.JobOf(t.Model, i) != nil {
		return false // it would run twice; it ends by itself
	}
	away := t.Model.Workers[i.Worker].Draining() || Pass(t).Broken[i.ID] != "" || state.UnderWay(i) &&
		i.Moving.For != ""
	return (i.State == wire.Running || i.State == wire.WorkerScheduled) && !i.Draining && away
}

// Aim brings a move in line with what is wanted now, and returns the instance as it
// is then: one that is not to be moved any more stays, and what starts elsewhere is
// of the program that the share asks for now.
func Aim(t *state.Tx, i wire.Instance, s *wire.Share) *wire.Instance {
	if i.Moving == nil {
		return t.Inst(i.ID)
	}
	m := *i.Moving
	if m.Room && (m.Failed != "" || placement.Overdue(&m, t.Now)) {
		placement.Pass(t).Tried[i.ID] = true // whoever waits for its room may end it now
		if m.Failed == "" {
			t.Event(event.InstanceMoveFailed, i.ID, "not ready on worker %s in %s, to which it was to move", m.Worker,
				placement.RoomBy)
		}
		state.Drop(&i)
		t.Put(i)
		fleet.Recount(t)
		return t.Inst(i.ID)
	}
	switch {
	case !Movable(t, &i):
		state.Drop(&i)
	case m.Failed != "":
		return t.Inst(i.ID)
	case t.Model.Workers[m.Worker].Draining(), placement.Unfit(t, &i, m.Worker, s) != "":
		state.Drop(&i)
	case m.Program != s.Spec.ProgramID() || m.Restarted < state.RestartOf(s, i.Ordinal).N:
		m.Incarnation = state.NextIncarnation(&i)
		m.Revision, m.Restarted, m.Program = s.Revision, state.RestartOf(s, i.Ordinal).N, s.Spec.ProgramID()
		i.Moving = &m
		t.Put(i)
		orders.Move(t, &i, s)
		return t.Inst(i.ID)
	case m.Revision != s.Revision: // the same program with other terms
		m.Revision = s.Revision
		i.Moving = &m
		t.Put(i)
		orders.Move(t, &i, s)
		return t.Inst(i.ID)
	default:
		return t.Inst(i.ID)
	}
	t.Put(i)
	fleet.Recount(t)
	return t.Inst(i.ID)
}

// BeginMove starts an instance elsewhere, beside the one that runs. False where
// there is no place for it: then it stays, with the reason.
func BeginMove(t *state.Tx, i wire.Instance, s *wire.Share, now time.Time) bool {
	d := WhereTo(t, &i, s)
	if d.Chosen == "" {
		fleet.Pass(t).Stays[i.ID] = d.Reason
		since := i.Since
		if i.Moving != nil {
			since = i.Moving.Since
		}
		if len(i.Avoid) > 0 && max(now.Sub(since), since.Sub(now)) >= instances.ForgiveAfter {
			i.Avoid = nil // as in unplaced
			t.Put(i)
		}
		return false
	}
	StartMove(t, i, s, d, Pass(t).Broken[i.ID], false, now)
	return true
}

// StartMove starts an instance on the worker that d has chosen, beside the one that runs;
// room says that it is to make room.
func StartMove(t *state.Tx, i wire.Instance, s *wire.Share, d place.Decision, why string, room bool, now time.Time) {
	n := state.NextIncarnation(&i)
	i.Moving = &wire.Move{
		Worker: d.Chosen, Incarnation: n, Since: now.Round(0),
		Revision: s.Revision, Restarted: state.RestartOf(s, i.Ordinal).N, Program: s.Spec.ProgramID(),
		For: why, Room: room,
	}
	t.Put(i)
	orders.Move(t, &i, s)
	t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	placement.Reserve(t, d.Chosen, &i, s)
	if i.Moving.For != "" {
		t.Event(event.InstanceMoving, i.ID, "moving from %s to %s: %s", i.Worker, d.Chosen, i.Moving.For)
		return
	}
	t.Event(event.InstanceMoving, i.ID, "moving from %s to %s", i.Worker, d.Chosen)
}

// WhereTo asks for a worker to move an instance to; the reason says why there is
// none.
func WhereTo(t *state.Tx, i *wire.Instance, s *wire.Share) place.Decision {
	if i.Pinned != "" {
		var names []string
		for _, v := range s.Spec.Volumes {
			if v.Name != "" {
				names = append(names, v.Name)
			}
		}
		return place.Decision{Reason: "its volume " + strings.Join(names, ", ") +
			" is on that worker and nowhere else (verge volume move takes it to another)"}
	}
	avoid := slices.Clone(instances.Avoided(t, i, s))
	if i.Shadow != nil {
		avoid = state.AppendOnce(avoid, i.Shadow.Worker)
	}
	d := placement.Schedule(t, i, s, state.AppendOnce(avoid, i.Worker))
	if i.Moving != nil && d.Chosen == "" {
		d.Reason += "; its replacement failed: " + i.Moving.Failed
	}
	return d
}

// SweepMove keeps the orders of both sides of a move.
func SweepMove(t *state.Tx, i *wire.Instance, want map[string]bool, now time.Time) {
	if state.UnderWay(i) {
		key := i.Moving.Worker + "." + i.ID
		want[key] = true
		s := rollouts.ShareFor(t, i)
		if o := t.Ordered(key); s != nil && (o == nil || o.Incarnation != i.Moving.Incarnation) {
			orders.Move(t, i, s)
		}
	}
	if i.Leaving == nil {
		return
	}
	key := i.Leaving.Worker + "." + i.ID
	want[key] = true
	if o := t.Ordered(key); o != nil && !o.Stop && mayLeave(t, i, now) {
		stop := *o
		stop.Stop = true
		t.Order(i.Leaving.Worker, i.ID, &stop)
	}
}

// mayLeave: the routers know that another has taken over, as far as that can be
// known. Routers of other clusters get a moment; whoever asks the old one all the
// same is told that it is draining.
func mayLeave(t *state.Tx, i *wire.Instance, now time.Time) bool {
	s := t.Model.Shares[i.App+"."+i.Service]
	if s == nil || len(s.Spec.Ports) == 0 || i.State != wire.Running {
		return true
	}
	after := now.Sub(i.Leaving.Started)
	if after < 0 || after >= LeaveBy { // the clock was set back
		return true
	}
	if after < LeaveAfter {
		return false
	}
	for _, w := range t.Model.Workers {
		if !w.Suspect && w.EverHeard && !w.Current {
			return false
		}
	}
	return true
}

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	// Broken are the instances that are to move for their agreement, with the reason.
	Broken map[wire.InstanceID]string
	// Violations are those of which nobody here is expected to keep the agreement, with what
	// the root is told.
	Violations map[wire.InstanceID]string
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch { return scratch.Of(t.Rows, nil) }
