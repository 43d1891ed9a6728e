package volumes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

var (

	// Before the instance is elsewhere, or done with its volume: without them it stays.
	LeftTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyLeft, Fate: records.Holds, Security: true,
		Drop: "a volume that was given up may be taken for the present one when its worker comes back: remove it " +
			"there before (verge volume rm)",
	}, table.Rules[record.LeftVolumes]{Stage: table.First, Essential: true})
	// Snapshots are the snapshots, by namespace and object.
	Snapshots = table.Add(&state.Schema, records.Kind{
		Prefix: KeySnapshot, Fate: records.Aside,
		Drop: "the snapshot is an object like any other: to restore a volume from it say its digest (--sha256)",
	}, table.Rules[wire.Snapshot]{Stage: table.First})
)

// KeyLeft + worker.instance: record.LeftVolumes.
const KeyLeft = "leftvolumes."

// maxLeftVolumes are remembered at most; then the oldest are forgotten.
const maxLeftVolumes = 10_000

// Leave notes that the volumes of an instance on a worker do not count any more.
func Leave(t *state.Tx, i *wire.Instance, s *wire.Share, worker, why, by string) {
	l := record.LeftVolumes{V: wire.Version, Worker: worker, Namespace: wire.ShareNamespace(s), Instance: i.ID,
		Why: why, Since: t.Now.UTC().Round(0), By: by}
	for _, v := range s.Spec.Volumes {
		if v.Name != "" {
			l.Volumes = append(l.Volumes, v.Name)
		}
	}
	LeftTable.Put(t.Rows, l.Key(), &l)
	if len(LeftTable.Rows(t.Model.DB)) >= maxLeftVolumes {
		oldest := slices.MinFunc(records.SortedKeys(LeftTable.Rows(t.Model.DB)), func(x, y string) int {
			return LeftTable.Rows(t.Model.DB)[x].Since.Compare(LeftTable.Rows(t.Model.DB)[y].Since)
		})
		LeftTable.Put(t.Rows, oldest, nil)
	}
}

// Shunned are the workers that an instance is not to be placed on: those to be avoided,
// and those that have stale volumes of it.
func Shunned(t *state.Tx, i *wire.Instance, avoid []string) []string {
	if len(LeftTable.Rows(t.Model.DB))+len(LeftTable.Changes(t.Rows)) == 0 {
		return avoid
	}
	var more []string
	for _, l := range records.Merged(LeftTable.Rows(t.Model.DB), LeftTable.Changes(t.Rows)) {
		if l.Instance == i.ID && !slices.Contains(avoid, l.Worker) {
			more = append(more, l.Worker)
		}
	}
	slices.Sort(more)
	return slices.Concat(avoid, more)
}

// DescribeLeft says which volumes are in the way of an instance, and what to do, "" if none
// is.
func DescribeLeft(t *state.Tx, i *wire.Instance) (out string) {
	const most = 3
	all := Shunned(t, i, nil)
	for n, worker := range all {
		if n == most {
			return out + fmt.Sprintf("; so have %d more workers", len(all)-most)
		}
		l := LeftTable.Get(t.Rows, worker+"."+i.ID)
		for _, v := range l.Volumes {
			out += fmt.Sprintf("; worker %s has a volume of it that does not count (%s), and can take it once "+
				"that is removed: verge volume rm %s/%s/%s", worker, l.Why, t.Model.Name, worker,
				wire.VolumeRef{Namespace: l.Namespace, Instance: l.Instance, Name: v})
		}
	}
	return out
}

// IsLeft says why a volume does not count any more, "" if it does.
func IsLeft(m *state.Model, worker string, r wire.VolumeRef) string {
	l := LeftTable.Rows(m.DB)[worker+"."+r.Instance]
	if l == nil || l.Namespace != r.Namespace || !slices.Contains(l.Volumes, r.Name) {
		return ""
	}
	return l.Why
}

// GiveUp lets an instance begin elsewhere, without what it has on a worker.
func GiveUp(t *state.Tx, i wire.Instance, worker, by string, now time.Time) wire.Instance {
	why := fmt.Sprintf("given up by %s while worker %s was away", by, worker)
	Leave(t, &i, rollouts.ShareFor(t, &i), worker, "they were "+why, by)
	t.Event(event.InstanceVolumesLost, i.ID, "its volumes on worker %s were %s; it begins elsewhere with empty ones",
		worker, why)
	if i.State == wire.Running || i.State == wire.WorkerScheduled {
		i = t.Advance(i, wire.Failed, now, t.Model.Tier(), "its volumes were "+why)
	}
	// Without a shadow: where that worker comes back, what it runs is ended, and is not
	// taken for the original.
	i.Worker, i.Pinned, i.Former, i.Shadow = "", "", "", nil
	i.Ready, i.Draining, i.Unreachable, i.Asleep = false, false, false, false
	i.Avoid, i.LastExit = nil, nil
	return i
}

// Keeps says whether an instance that is on a worker, or pinned to it, names a
// volume; the worker itself may not have its order.
func Keeps(m *state.Model, worker string, r wire.VolumeRef) bool {
	i := m.Insts[r.Instance]
	if i == nil || (i.Worker != worker && i.Pinned != worker) {
		return false
	}
	s := m.Shares[i.App+"."+i.Service]
	if s == nil || s.Spec == nil {
		return true // nobody knows what it names
	}
	return cmp.Or(s.Namespace, api.DefaultNamespace) == r.Namespace &&
		slices.ContainsFunc(s.Spec.Volumes, func(v api.Volume) bool { return v.Name == r.Name })
}
