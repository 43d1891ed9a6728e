package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// LostAndFound marks the instances of dead clusters as unreachable, and decides
// when one is back which of the two stays where an instance was replaced.
func LostAndFound(t *state.Tx, now time.Time) {
	for _, i := range t.Instances("") {
		i = t.Inst(i.ID) // settling another may have changed it
		if i == nil || i.Draining || t.Model.Clusters[i.Cluster] == nil {
			continue
		}
		c := t.Model.Clusters[i.Cluster]
		back := !c.Suspect && c.EverHeard && c.Inbox.Ack().Inc != ""
		next := *i
		switch {
		case !i.Unreachable && t.Model.Dead(c, now) && !t.Model.Alone:
			next.Unreachable = true
			next.Reason = "cluster " + c.Name + " is away"
			away := fmt.Sprintf("unreachable: cluster %s has been away for %s", c.Name,
				now.Sub(c.Heard).Round(time.Second))
			t.Event(event.InstanceUnreachable, i.ID, "%s", away)
			t.Note(event.InstanceUnreachable, i, now, away)
			t.Put(next)
		case back && i.Unreachable:
			next.Unreachable, next.Reason = false, ""
			t.Put(next)
			settle(t, &next, c, now)
		}
	}
}

// settle ends the original or the replacement, as on_return says.
func settle(t *state.Tx, i *wire.Instance, c *state.Cluster, now time.Time) {
	var replacement *wire.Instance
	for _, o := range t.Of(i.App, i.Service) {
		if o.Replaces == i.ID && !o.Draining {
			replacement = o
		}
	}
	if replacement == nil || jobs.Settle(t, i, replacement, c, now) {
		return
	}
	keep := "original"
	if app := t.Model.Apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil &&
		app.Spec.Services[i.Service].Cron != nil {
		// All of them, and the schedule with them, are where they were placed last.
		if keep = "replacement"; replacement.Cluster == "" {
			t.End(*replacement, now)
			return
		}
	} else if app != nil && app.Spec.Services[i.Service] != nil {
		keep = app.Spec.Services[i.Service].OnReturn
	}
	if c.Draining() {
		keep = "replacement"
	}
	rep := c.Seen[i.ID]
	if keep == "original" && rep != nil && rep.State == wire.Running {
		t.Event(event.InstanceOriginal, i.ID, "cluster %s is back: the original stays, its replacement %s ends",
			c.Name, replacement.ID)
		t.End(*replacement, now)
		return
	}
	t.Event(event.InstanceOriginal, i.ID, "cluster %s is back: the replacement %s stays, the original ends", c.Name,
		replacement.ID)
	t.End(*i, now)
}

// TakeBack makes an instance the root's again that a cluster gave back.
func TakeBack(t *state.Tx, i wire.Instance, now time.Time) {
	c := t.Model.Clusters[i.Cluster]
	if c == nil || i.State != wire.ClusterScheduled || i.Draining {
		return
	}
	rep := c.Seen[i.ID]
	if rep == nil || rep.State != wire.Requested || c.Suspect || rep.Revision >= wire.LocalRevisions {
		// What its site made of it is the site's to place.
		return
	}
	if rep.Retained && !placement.Elsewhere(t, &i, now) {
		// Its worker may come back with it, and nobody else has room: taken back it
		// would be stopped there, for nothing.
		return
	}
	if app := t.Model.Apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil &&
		app.Spec.Services[i.Service].Cron != nil {
		if jobs.AtWork(t, i.App, i.Service, i.Cluster) {
			return // all of them are in one cluster, and some are at work
		}
		for _, o := range t.Of(i.App, i.Service) {
			if o.ID != i.ID && o.Cluster == i.Cluster && o.State == wire.ClusterScheduled && !o.Draining {
				next := t.Advance(*o, wire.Requested, now, "returned by cluster "+i.Cluster+" with "+i.ID)
				if !slices.Contains(next.Avoid, i.Cluster) {
					next.Avoid = append(slices.Clone(next.Avoid), i.Cluster)
				}
				next.Cluster = ""
				t.Put(next)
			}
		}
	}
	times := 0
	for _, h := range i.History {
		if h.To == wire.Requested {
			times++
		}
	}
	wait := min(placement.RefuseMin<<min(max(times-1, 0), 10), placement.RefuseMax)
	if app := t.Model.Apps[i.App]; app != nil && app.Revision == rep.Revision && app.Spec.Services[i.Service] != nil {
		c.Refused[i.App+"."+i.Service] = state.Refusal{Spec: app.Spec.Services[i.Service], At: now, Wait: wait,
			Why: rep.Reason, Agg: c.Aggregate}
	}
	back := "returned by cluster " + i.Cluster + ": " + rep.Reason
	t.Note(event.InstanceWaiting, &i, now, back)
	i = t.Advance(i, wire.Requested, now, back)
	if !slices.Contains(i.Avoid, i.Cluster) {
		i.Avoid = append(i.Avoid, i.Cluster)
	}
	i.Cluster = ""
	i.AllRestarts += rep.Again()
	t.Put(i)
}

// Forget drops an ended instance once its cluster has said that it is gone.
func Forget(t *state.Tx, i *wire.Instance, now time.Time) {
	c := t.Model.Clusters[i.Cluster]
	gone := c == nil || t.Model.Dead(c, now)
	if c != nil && !gone {
		key := c.Name + "." + i.App + "." + i.Service
		s := t.Model.Shares[key]
		delegated := s != nil && slices.ContainsFunc(s.Ordinals,
			func(sp wire.Span) bool { return i.Ordinal >= sp.From && i.Ordinal < sp.To })
		_, reported := c.Seen[i.ID]
		gone = !delegated && !reported && !c.Suspect && c.EverHeard && c.Current
	}
	if gone {
		if c == nil || !t.Model.Right(i) {
			t.Event(event.InstanceEnded, i.ID, "Terminated: no longer wanted")
		}
		t.Remove(i.ID, now)
	}
}
