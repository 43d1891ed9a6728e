package hooks

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// What a root and a cluster tell alike: each says all that it knows of a subject, and its
// mark says how far that has been told.

// Steps are the notices of the steps of an instance, oldest first. d is about the instance;
// kind says of which kind a step is ("": nobody is told), fresh whether it was seen to happen.
func Steps(d wire.HookData, history []wire.Transition, kind func(wire.Transition) string, fresh func(at time.Time) bool) (out []Notice) {
	for _, h := range history {
		k := kind(h)
		if k == "" {
			continue
		}
		n := Notice{Kind: k, At: h.At, Position: fmt.Sprintf("%s at %d", h.To, h.At.UnixNano()), Fresh: fresh(h.At), Data: d}
		n.Data.Source, n.Data.What = h.Tier, fmt.Sprintf("%s: %s", h.To, h.Why)
		if k == wire.HookInstanceEnded {
			n.Position = Ended + " " + n.Position
		}
		out = append(out, n)
	}
	return out
}

// KindOf is the kind of a step of an instance, "" for one that nobody is told of.
func KindOf(h wire.Transition) string {
	switch {
	case h.To == wire.Running:
		return wire.HookInstanceRunning
	case h.To == wire.Failed && h.Because() == wire.CauseDisplaced:
		return wire.HookInstancePreempted
	case h.To == wire.Failed:
		return wire.HookInstanceFailed
	case h.To == wire.WorkerScheduled && h.Moved():
		return wire.HookInstanceMoved
	case h.To == wire.Terminated:
		return wire.HookInstanceEnded
	}
	return ""
}

// InstanceGone is the notice that an instance is no more, of which d has at least the
// subject.
func InstanceGone(d wire.HookData, now time.Time) Notice {
	d.What = "Terminated: no longer wanted"
	return Notice{Kind: wire.HookInstanceEnded, Position: Ended, At: now, Fresh: true, Last: true, Data: d}
}

// CutID takes the id of an instance apart.
func CutID(id wire.InstanceID) (app, service string, ordinal int) {
	app, rest, _ := strings.Cut(id, ".")
	service, number, _ := strings.Cut(rest, ".")
	ordinal, _ = strconv.Atoi(number)
	return app, service, ordinal
}

// RolloutOver is the notice that a cluster has come to an end with a rollout, or is to be
// resumed; ok is false where it goes on. d has the subject, and what is known of the service.
func RolloutOver(d wire.HookData, r *wire.RolloutReport, fresh bool) (n Notice, ok bool) {
	kind := map[string]string{wire.RolloutDone: wire.HookRolloutDone, wire.RolloutFailed: wire.HookRolloutFailed}[r.Phase]
	if kind == "" {
		return n, false
	}
	d.Application, d.Service, d.Revision = r.App, r.Service, r.Revision
	d.What = strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Phase, r.Why), ": ")
	return Notice{Kind: kind, At: r.Ended, Position: fmt.Sprintf("%d %s %d", r.Revision, r.Phase, r.Ended.UnixNano()), Fresh: fresh, Data: d}, true
}

// RunsOver are the notices of the runs of a job that have ended, oldest first; fresh says
// whether that of a run was seen.
func RunsOver(d wire.HookData, r *wire.JobReport, fresh func(run *wire.JobRun) bool) (out []Notice) {
	d.Application, d.Service = r.App, r.Service
	for _, run := range append(append([]wire.JobRun{}, r.Past...), r.Run) {
		kind := map[string]string{wire.JobComplete: wire.HookJobSucceeded, wire.JobFailed: wire.HookJobFailed}[run.Outcome]
		if kind == "" {
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
	NodeLost = "lost"
	NodeBack = "back"
)

// OfNode is the notice of what became of a node, which the tier above it has seen now.
func OfNode(kind, position string, d wire.HookData, now time.Time) Notice {
	n := Notice{Kind: kind, At: now, Position: position, Fresh: true, Note: true, Data: d}
	switch kind {
	case wire.HookWorkerRemoved, wire.HookClusterRemoved:
		n.Last = true
	case wire.HookWorkerBack, wire.HookClusterBack:
		n.Only = NodeLost // it may have been lost before this process began
	}
	return n
}

// Agreed is what gates have agreed to: a revision of an application.
type Agreed struct {
	Asked    bool
	Revision uint64
	Warnings []string
}

// Still says whether what is about to be done is what was agreed to.
func (a *Agreed) Still(res wire.ApplyResult) error {
	if !a.Asked || res.Change == "unchanged" || res.Revision == a.Revision {
		return nil
	}
	return wire.Problemf(409, "changed-meanwhile", "look at it, then apply again: verge diff", "nothing was changed: somebody else did meanwhile",
		"%s would become revision %d, and hooks were asked about %d", res.Name, res.Revision, a.Revision)
}
