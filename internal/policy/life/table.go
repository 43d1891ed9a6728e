package life

import (
	"fmt"

	"github.com/verge-edge/verge/internal/wire"
)

// Step is a row of the transition table.
type Step struct {
	// From is empty for a record that is only being opened.
	From wire.State
	To   wire.State
	When string // in words, for the documentation
}

// Table lists every step that exists, in the order of a life. The caller owns
// the slice.
func Table() []Step {
	return []Step{
		{"", wire.Registered, "the root recorded the instance of an applied service"},
		{"", wire.ClusterScheduled, "a cluster opened its record of an ordinal delegated to it"},

		{wire.Registered, wire.Requested, "the root began to look for a cluster"},
		{wire.Registered, wire.Terminated, "deleted"},

		{wire.Requested, wire.ClusterScheduled, "delegated to a cluster"},
		{wire.Requested, wire.Terminated, "deleted"},

		{wire.ClusterScheduled, wire.WorkerScheduled, "the cluster chose a worker"},
		{wire.ClusterScheduled, wire.Requested, "no worker of the cluster took it; the reason goes along"},
		{wire.ClusterScheduled, wire.Terminated, "deleted"},

		{wire.WorkerScheduled, wire.Running, "started, startup check passed"},
		{wire.WorkerScheduled, wire.Failed, "the worker refused, could not start it, or vanished"},
		{wire.WorkerScheduled, wire.Terminated, "deleted"},

		{wire.Running, wire.WorkerScheduled,
			"updated, restarted or moved: the next incarnation, on the same worker or on another"},
		{wire.Running, wire.Failed, "ended for good, or its worker was lost"},
		{wire.Running, wire.Terminated, "deleted, drained, moved or completed (draining must be set)"},

		{wire.Failed, wire.WorkerScheduled, "placed again in the same cluster"},
		{wire.Failed, wire.Requested, "escalated: the cluster has no place for it"},
		{wire.Failed, wire.Running, "its worker returned with this incarnation before it was replaced"},
		{wire.Failed, wire.Terminated, "deleted"},
	}
}

// States lists all states in the order of a life.
func States() []wire.State {
	return []wire.State{
		wire.Registered, wire.Requested, wire.ClusterScheduled, wire.WorkerScheduled,
		wire.Running, wire.Failed, wire.Terminated,
	}
}

// Allowed reports whether the table has a step from one state to another. A
// state does not follow itself: nothing would have changed.
func Allowed(from, to wire.State) bool {
	for _, s := range Table() {
		if s.From == from && s.To == to {
			return true
		}
	}
	return false
}

// IllegalError says that an instance cannot take a step. It is a bug in the
// caller, or a message that came too late.
type IllegalError struct {
	From, To wire.State
	ID       wire.InstanceID
	// Why is set where the table has the step but a condition was not met.
	Why string
}

// Error names the instance, both states and, if there is one, the condition.
func (e *IllegalError) Error() string {
	from := string(e.From)
	if from == "" {
		from = "a new record"
	}
	s := fmt.Sprintf("instance %s cannot go from %s to %s", e.ID, from, e.To)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}
