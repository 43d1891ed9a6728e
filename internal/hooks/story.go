package hooks

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// What a root and a cluster tell alike: each says all that it knows of a subject, and its
// mark says how far that has been told.

// Steps are the notices of the steps of an instance, oldest first. d is about the instance; kind
// returns the kind of a step, fresh whether it was seen to happen.
func Steps(
	d wire.HookData, history []wire.Transition, kind func(wire.Transition) event.Kind, fresh func(at time.Time) bool,
) (out []Notice) {
	for _, h := range history {
		k := kind(h)
		if !k.Told("") {
			continue
		}
		n := Notice{Kind: k, At: h.At, Position: fmt.Sprintf("%s at %d", h.To, h.At.UnixNano()), Fresh: fresh(h.At),
			Data: d}
		n.Data.Source, n.Data.What = h.Tier, fmt.Sprintf("%s: %s", h.To, h.Why)
		if k == event.InstanceEnded {
			n.Position = Ended + " " + n.Position
		}
		out = append(out, n)
	}
	return out
}

// KindOf is the kind of a step of an instance for who does not place it: that it waits says the
// tier that does.
func KindOf(h wire.Transition) event.Kind {
	if k := event.OfStep(h); k != event.InstanceWaiting {
		return k
	}
	return event.Kind{}
}

// InstanceGone is the notice that an instance is gone; d has at least the subject.
func InstanceGone(d wire.HookData, now time.Time) Notice {
	d.What = "Terminated: no longer wanted"
	return Notice{Kind: event.InstanceEnded, Position: Ended, At: now, Fresh: true, Last: true, Data: d}
}

// CutID takes the id of an instance apart.
func CutID(id wire.InstanceID) (app, service string, ordinal int) {
	app, rest, _ := strings.Cut(id, ".")
	service, number, _ := strings.Cut(rest, ".")
	ordinal, _ = strconv.Atoi(number)
	return app, service, ordinal
}

// RolloutOver is the notice that a rollout in a cluster has ended, or is to be resumed; ok is
// false while it is in progress. d has the subject, and what is known of the service.
func RolloutOver(d wire.HookData, r *wire.RolloutReport, fresh bool) (n Notice, ok bool) {
	kind, ok := map[string]event.Kind{wire.RolloutDone: event.RolloutDone,
		wire.RolloutFailed: event.RolloutFailed}[r.Phase]
	if !ok {
		return n, false
	}
	d.Application, d.Service, d.Revision = r.App, r.Service, r.Revision
	d.What = strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Phase, r.Why), ": ")
	return Notice{Kind: kind, At: r.Ended, Position: fmt.Sprintf("%d %s %d", r.Revision, r.Phase, r.Ended.UnixNano()),
		Fresh: fresh, Data: d}, true
}

// RunsOver are the notices of the runs of a job that have ended, oldest first; fresh says
// whether that of a run was seen.
func RunsOver(d wire.HookData, r *wire.JobReport, fresh func(run *wire.JobRun) bool) (out []Notice) {
	d.Application, d.Service = r.App, r.Service
	for _, run := range append(append([]wire.JobRun{}, r.Past...), r.Run) {
		kind := event.OfRun(run.Outcome)
		if !kind.Told("") {
			continue
		}
		n := Notice{Kind: kind, At: run.Ended, Position: fmt.Sprintf("run %d", run.N), Fresh: fresh(&run), Data: d}
		n.Data.What = fmt.Sprintf("run %d is %s: %s", run.N, run.Outcome, run.Why)
		out = append(out, n)
	}
	return out
}

// Positions of a node that comes and goes: a worker of a cluster, a cluster of a root.
const (
	nodeLost = "lost"
	nodeBack = "back"
)

// Event makes notices about nodes: it is a sink of the tier's events. All other notices are made
// from records, which outlive the process.
func (k *Keeper) Event(e event.Event) {
	if about := e.Kind.About(); !e.Kind.Told("") || about != event.Cluster && about != event.Worker {
		return
	}
	cluster, _, _ := strings.Cut(e.Name, "/")
	n := Notice{
		Kind: e.Kind, At: e.At, Position: fmt.Sprintf("%s at %d", e.Text, e.At.UnixNano()), Fresh: true, Note: true,
		Data: wire.HookData{Subject: e.Subject(), Cluster: cluster, What: e.Text},
	}
	switch e.Kind {
	case event.WorkerRemoved, event.ClusterRemoved:
		n.Position, n.Last = Ended, true
	case event.WorkerLost, event.ClusterLost:
		n.Position = nodeLost
	case event.WorkerBack, event.ClusterBack:
		n.Position, n.Only = nodeBack, nodeLost // it may have been lost before this process began
	}
	k.Tell(n)
}

// Agreed is what gates have agreed to: a revision of an application.
type Agreed struct {
	Asked    bool
	Revision uint64
	Warnings []string
}

// Still says whether what is about to be done is what was agreed to.
func (a *Agreed) Still(res apiv1.ApplyResult) error {
	if !a.Asked || res.Change == "unchanged" || res.Revision == a.Revision {
		return nil
	}
	return wire.Problemf(409, "changed-meanwhile", "look at it, then apply again: verge diff",
		"nothing was changed: somebody else did meanwhile",
		"%s would become revision %d, and hooks were asked about %d", res.Name, res.Revision, a.Revision)
}
