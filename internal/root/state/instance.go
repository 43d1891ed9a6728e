package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Spare is the right to run an instance of a service whose requests decide how many
// run, of which nothing is there.
func (m *Model) Spare(i *wire.Instance, svc *api.Service) bool {
	if svc == nil || !svc.Replicas.Elastic() || i.Draining && i.Cluster != "" {
		return false
	}
	c := m.Clusters[i.Cluster]
	return c == nil || c.Seen[i.ID] == nil
}

// Right says whether an instance is no more than the right of a cluster to run one more
// of a service: of those that are not promised, and of which nothing is there. Changes
// of their number are told, not each of them.
func (m *Model) Right(i *wire.Instance) bool {
	app := m.Apps[i.App]
	if app == nil {
		return false
	}
	svc := app.Spec.Services[i.Service]
	if svc == nil || !svc.Replicas.Elastic() || i.Ordinal < max(svc.Replicas.Min, 1) {
		return false
	}
	c := m.Clusters[i.Cluster]
	return c == nil || c.Seen[i.ID] == nil
}

// Hidden says whether an instance is a right that nobody needs to see: others of its
// service are there.
func (m *Model) Hidden(i *wire.Instance) bool {
	app := m.Apps[i.App]
	return app != nil && m.Spare(i, app.Spec.Services[i.Service]) && m.placedSome(i)
}

// placedSome says whether a cluster has any of the instances of i's service.
func (m *Model) placedSome(i *wire.Instance) bool {
	return slices.ContainsFunc(m.ByService()[i.App+"."+i.Service], func(id wire.InstanceID) bool {
		o := m.Insts[id]
		c := m.Clusters[o.Cluster]
		return c != nil && c.Seen[id] != nil
	})
}

// NotYet says in words why an instance does not count.
func NotYet(i *wire.Instance, revision uint64) string {
	s := i.ID + " is " + string(i.State)
	switch {
	case i.Unreachable:
		if s = i.ID + " is unreachable"; i.Reason == "" {
			s += ": its worker does not report"
		}
	case i.State == wire.Running && i.Revision >= wire.LocalRevisions:
		s = i.ID + " runs what was changed at its site"
	case i.State == wire.Running && i.Revision != revision:
		s = fmt.Sprintf("%s still runs revision %d", i.ID, i.Revision)
	case i.State == wire.Running:
		s = i.ID + " is not ready"
	}
	if i.Reason != "" {
		s += ": " + i.Reason
	}
	return s
}

// Merged is an instance as its cluster reports it, with the root's part of its
// history before that; or as the root knows it, where no cluster has it yet.
func (m *Model) Merged(i *wire.Instance) wire.Instance {
	out := *i
	c := m.Clusters[i.Cluster]
	if c == nil || c.Seen[i.ID] == nil {
		if app := m.Apps[i.App]; i.Job != nil && app != nil && app.Spec.Services[i.Service] != nil &&
			RuleOf(app, i.Service).Done(i) {
			out.State, out.Since, out.Cause, out.Reason = wire.Terminated, i.Job.Completed, wire.CauseCompleted,
				"completed"
		}
		return out
	}
	rep := c.Seen[i.ID]
	out = rep.Instance
	// The cluster's part begins with what the root's ends with.
	out.History = append(slices.Clone(i.History), rep.History[min(1, len(rep.History)):]...)
	out.Replaces = i.Replaces
	out.AllRestarts = rep.Again() + i.AllRestarts // with those in clusters that gave it back
	out.Unreachable = rep.Unreachable || i.Unreachable
	if i.Unreachable && out.Reason == "" {
		out.Reason = i.Reason
	}
	out.Draining = rep.Draining || i.Draining
	return out
}

const (
	// Tier is how the root signs transitions.
	Tier = "root"
	// MaxReportInterval is the longest time between two reports of a cluster.
	MaxReportInterval = 5 * time.Second
	// MinReportInterval is the shortest.
	MinReportInterval = 500 * time.Millisecond
)

// Dead says whether what the cluster runs is to be replaced.
func (m *Model) Dead(c *Cluster, now time.Time) bool {
	return c.Suspect && now.Sub(c.Since) >= m.DeadAfter
}

// Namespace of an application. Instances may outlive its record by a moment: they
// are then in none, and so seen by administrators alone.
func (m *Model) Namespace(app string) string {
	if a := m.Apps[app]; a != nil {
		return wire.NamespaceOf(a.Spec)
	}
	return ""
}

// MaySee says whether who may see an application.
func MaySee(who access.Who, app *record.Application) bool {
	return access.May(who, access.See, access.Object{Kind: access.Application, Name: app.Name,
		Namespace: wire.NamespaceOf(app.Spec)}) == nil
}
