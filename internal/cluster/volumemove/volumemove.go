package volumemove

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// The named volumes of an instance are moved while it is stopped: its worker packs them
// into the cluster's object store, the other worker makes them of it and compares, and
// only then is the instance given to that one. Each step is an order, so that whoever
// was away goes on with it, and until the last one the volumes where it was are the
// ones that count; they stay there afterwards, too.

// Named of a service, as objects of an instance.
func Named(i *wire.Instance, s *wire.Share) (out []wire.VolumeObject) {
	for _, v := range s.Spec.Volumes {
		if v.Name != "" {
			out = append(out, wire.VolumeObject{Name: v.Name, Object: "volumes/" + i.ID + "/" + v.Name})
		}
	}
	return out
}

// Move takes a move one step further. Where it is over, or cannot go on, the
// instance has none any more.
func Move(t *state.Tx, i wire.Instance, now time.Time) wire.Instance {
	s, m := rollouts.ShareFor(t, &i), *i.Volumes
	switch {
	case s == nil || !instances.Wanted(t, &i) || i.State == wire.Terminated:
		i.Volumes = nil
		return i
	case t.Model.Workers[m.From] == nil && m.Work.Do != wire.VolumeUnpack:
		i.Volumes = nil // what becomes of it is decided as of any other
		return i
	case m.To != "" && t.Model.Workers[m.To] == nil:
		return Stay(t, i, s, "worker "+m.To+" was removed from the cluster", now)
	}
	if i.State == wire.Running {
		i = t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(), Describe(&m, "stopped while "))
		i.Ready, i.Draining, i.Unreachable = false, false, false
	}
	at, doing := m.From, "they are copied from it to the cluster's object store"
	switch m.Work.Do {
	case wire.VolumeUnpack:
		at, doing = m.To, "they are copied to it from the cluster's object store, and compared"
	case wire.VolumeRestore:
		doing = "it is copied to it from the cluster's object store, and compared"
	}
	w := t.Model.Workers[at]
	st := w.Status[i.ID]
	report := st.Volumes
	i.Reason = Describe(&m, "") + ": "
	switch {
	case w.Suspect || !w.EverHeard:
		i.Reason += "waits for worker " + at + ", which is away"
	case !report.About(&m.Work) && st.Phase != wire.PhaseStopped && at == m.From && st.ID != "":
		i.Reason += "the instance ends by its stop rule"
	case !report.About(&m.Work), !report.Done && report.Why == "":
		i.Reason += "worker " + at + ": " + doing
	case !report.Done && report.Final:
		return Stay(t, i, s, "worker "+at+": "+report.Why, now)
	case !report.Done:
		i.Reason += "worker " + at + " tries it again: " + report.Why
	case m.Work.Do == wire.VolumePack:
		if why := unlike(m.Work.Volumes, report.Volumes); why != "" {
			return Stay(t, i, s, "worker "+at+" "+why, now)
		}
		if m.To == "" {
			volumes.NoteSnapshot(t, &i, s, report.Volumes[0], now)
			return volumesDone(t, i, s, "the snapshot is in the cluster's object store: "+inWords(report.Volumes))
		}
		m.Work.Do, m.Work.Volumes = wire.VolumeUnpack, report.Volumes
		i.Volumes = &m
		t.Event(event.InstanceVolumes, i.ID, "its volumes are in the cluster's object store: %s",
			inWords(report.Volumes))
	case m.Work.Do == wire.VolumeRestore:
		return volumesDone(t, i, s, "its volume "+m.Work.Volumes[0].Name+" is as in object "+m.Work.Volumes[0].Object)
	default:
		i.VolumesEnded = &wire.VolumesEnded{Key: m.Work.Key}
		volumes.Leave(t, &i, s, m.From, "they were moved to worker "+m.To, m.By)
		if there := m.To + "." + i.ID; volumes.LeftTable.Rows(t.Model.DB)[there] != nil { // what is there now counts
			volumes.LeftTable.Put(t.Rows, there, nil)
		}
		i.Volumes, i.Worker, i.Pinned, i.Former = nil, m.To, m.To, ""
		i.Avoid, i.LastExit = nil, nil
		t.Event(event.InstanceVolumes, i.ID,
			"its volumes are on worker %s now, compared with what was packed; the former copy stays on worker %s "+
				"until somebody removes it: verge volume ls --unused", m.To, m.From)
		i.Reason = "its volumes were moved from worker " + m.From
		orders.Start(t, i, s)
		fleet.Recount(t)
		return *t.Inst(i.ID)
	}
	return i
}

// Describe says what is done with the volumes of an instance.
func Describe(m *wire.VolumeMove, before string) string {
	switch {
	case m.Work.Do == wire.VolumeRestore:
		return before + "its volume " + m.Work.Volumes[0].Name + " is restored"
	case m.To == "":
		return before + "a snapshot of its volume is made"
	case before != "":
		return before + "its volumes are moved to another worker"
	}
	return fmt.Sprintf("its volumes are moved from worker %s to worker %s", m.From, m.To)
}

// volumesDone ends what was done with volumes that stay where they are.
func volumesDone(t *state.Tx, i wire.Instance, s *wire.Share, what string) wire.Instance {
	i.VolumesEnded = &wire.VolumesEnded{Key: i.Volumes.Work.Key}
	i.Volumes, i.Reason = nil, what
	t.Event(event.InstanceVolumes, i.ID, "%s", what)
	orders.Start(t, i, s)
	return *t.Inst(i.ID)
}

// unlike says why what was packed is not what was to be packed, "" if it is.
func unlike(asked, packed []wire.VolumeObject) string {
	if len(asked) != len(packed) {
		return fmt.Sprintf("packed %d volumes and not %d", len(packed), len(asked))
	}
	for k, v := range packed {
		if v.Name != asked[k].Name || v.Object != asked[k].Object || v.Digest == "" {
			return fmt.Sprintf("packed %q and not volume %s", v.Name, asked[k].Name)
		}
	}
	return ""
}

func inWords(list []wire.VolumeObject) string {
	var out []string
	for _, v := range list {
		left := ""
		if v.Left > 0 {
			left = fmt.Sprintf(", without %s: %s", wire.Count(v.Left, "socket or pipe"), strings.Join(v.Examples, ", "))
		}
		out = append(out, fmt.Sprintf("%s (%s, %s, sha256:%.12s%s)", v.Name, wire.Count(v.Files, "file"),
			api.Bytes(v.Size), v.Digest, left))
	}
	return strings.Join(out, ", ")
}

// Stay ends a move that came to nothing: the instance starts again where its
// volumes are.
func Stay(t *state.Tx, i wire.Instance, s *wire.Share, why string, now time.Time) wire.Instance {
	m := i.Volumes
	i.Volumes, i.VolumesEnded = nil, &wire.VolumesEnded{Key: m.Work.Key, Why: why}
	t.Event(event.InstanceVolumesFailed, i.ID, "%s: that came to nothing, %s; it goes on on worker %s",
		Describe(m, ""), why, m.From)
	if i.State == wire.Running {
		i = t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(),
			"it starts again with its volumes where and as they were")
	}
	i.Reason = "its volumes stay where and as they were: " + why
	orders.Start(t, i, s)
	return *t.Inst(i.ID)
}

// Order keeps the orders of both sides of a move: both stop the instance.
func Order(t *state.Tx, i *wire.Instance, want map[string]bool) {
	s, m := rollouts.ShareFor(t, i), i.Volumes
	if s == nil {
		return
	}
	order := func(worker string, w *wire.VolumeWork) {
		key := worker + "." + i.ID
		want[key] = true
		if o := t.Ordered(key); o != nil && o.Stop && o.Incarnation == i.Incarnation && o.Volumes.Same(w) {
			return
		}
		t.Order(worker, i.ID, &wire.Order{
			V: wire.Version, ID: i.ID, App: i.App, Namespace: s.Namespace, Service: i.Service, Ordinal: i.Ordinal,
			Incarnation: i.Incarnation, Revision: i.Revision, Spec: s.Spec,
			AppNumber: netlease.In(t).OrderNumber(i, s), Stop: true, Volumes: w,
		})
	}
	if m.Work.Do != wire.VolumeUnpack {
		order(m.From, &m.Work)
		return
	}
	if t.Model.Workers[m.From] != nil {
		order(m.From, &wire.VolumeWork{Key: m.Work.Key, Do: wire.VolumeHold})
	}
	order(m.To, &m.Work)
}

// Free says why nothing can be done with the volumes that an instance has on a
// worker, nil if it can.
func Free(t *state.Tx, i *wire.Instance, worker, title string) error {
	switch {
	case i.Volumes != nil:
		return wire.Problemf(409, "volume-busy",
			"wait until it is over (verge describe instance/"+i.ID+"), or cancel it: verge volume move --cancel",
			"the volume is busy", "%s, since %s", Describe(i.Volumes, ""), i.Volumes.Since.Format(time.RFC3339))
	case i.Pinned != worker || i.Worker != worker || i.State != wire.Running && i.State != wire.WorkerScheduled:
		return wire.Problemf(409, "volume-unused", "verge describe instance/"+i.ID, title,
			"%s is %s, and its volume on worker %s is not the one that it uses (that is on %q)", i.ID, i.State,
			worker, cmp.Or(i.Pinned, "no worker"))
	case state.JobOf(t.Model, i) != nil || state.UnderWay(i) || i.Leaving != nil:
		return wire.Problemf(409, "volume-busy", "try again when it is over", "the volume is busy",
			"%s is being moved, or belongs to a job", i.ID)
	case t.Model.Away(worker):
		return wire.Problemf(409, "worker-away", "wait until it is back; what is on it is nowhere else", title,
			"worker %s, which has it, is away", worker)
	}
	return nil
}
