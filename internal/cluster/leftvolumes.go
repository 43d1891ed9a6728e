package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// keyLeftVolumes + worker.instance: wire.LeftVolumes.
const keyLeftVolumes = "leftvolumes."

// maxLeftVolumes are remembered at most; then the oldest are forgotten.
const maxLeftVolumes = 10_000

// leaveVolumes notes that the volumes of an instance on a worker do not count any more.
func (t *tx) leaveVolumes(i *wire.Instance, s *wire.Share, worker, why, by string) {
	l := wire.LeftVolumes{V: wire.Version, Worker: worker, Namespace: wire.ShareNamespace(s), Instance: i.ID, Why: why, Since: t.Now.UTC().Round(0), By: by}
	for _, v := range s.Spec.Volumes {
		if v.Name != "" {
			l.Volumes = append(l.Volumes, v.Name)
		}
	}
	t.leftVolumes[l.Key()] = &l
	if len(t.m.leftVolumes) >= maxLeftVolumes {
		oldest := slices.MinFunc(records.SortedKeys(t.m.leftVolumes), func(x, y string) int { return t.m.leftVolumes[x].Since.Compare(t.m.leftVolumes[y].Since) })
		t.leftVolumes[oldest] = nil
	}
}

// shunned are the workers that an instance is not to be placed on: those to be avoided,
// and those that have volumes of it that do not count any more.
func (t *tx) shunned(i *wire.Instance, avoid []string) []string {
	if len(t.m.leftVolumes)+len(t.leftVolumes) == 0 {
		return avoid
	}
	var more []string
	for _, l := range records.Merged(t.m.leftVolumes, t.leftVolumes) {
		if l.Instance == i.ID && !slices.Contains(avoid, l.Worker) {
			more = append(more, l.Worker)
		}
	}
	slices.Sort(more)
	return slices.Concat(avoid, more)
}

// leftWords says which volumes are in the way of an instance, and what to do, "" if none
// is.
func (t *tx) leftWords(i *wire.Instance) (out string) {
	const most = 3
	all := t.shunned(i, nil)
	for n, worker := range all {
		if n == most {
			return out + fmt.Sprintf("; so have %d more workers", len(all)-most)
		}
		l := t.leftVolumes[worker+"."+i.ID]
		if l == nil {
			l = t.m.leftVolumes[worker+"."+i.ID]
		}
		for _, v := range l.Volumes {
			out += fmt.Sprintf("; worker %s has a volume of it that does not count (%s), and can take it once that is removed: verge volume rm %s/%s/%s", worker, l.Why, t.m.Name, worker, wire.VolumeRef{Namespace: l.Namespace, Instance: l.Instance, Name: v})
		}
	}
	return out
}

// isLeft says why a volume does not count any more, "" if it does.
func (m *model) isLeft(worker string, r wire.VolumeRef) string {
	l := m.leftVolumes[worker+"."+r.Instance]
	if l == nil || l.Namespace != r.Namespace || !slices.Contains(l.Volumes, r.Name) {
		return ""
	}
	return l.Why
}

// ForgetVolumes implements rest.Backend.
func (b backend) ForgetVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeForgetRequest) error {
	return b.changeMove(ctx, cluster, worker, r, func(t *tx, i wire.Instance, now time.Time) (wire.Instance, error) {
		const title = "the volume is not given up"
		switch {
		case q.Confirm != r.Instance:
			return i, wire.Problemf(http.StatusUnprocessableEntity, "not-confirmed", "say that it is meant: --confirm "+r.Instance, title, "%s would begin elsewhere with empty volumes, and what it has stored on worker %s would not be used any more", r.Instance, worker)
		case i.Volumes != nil:
			return i, wire.Problemf(http.StatusConflict, "volume-busy", "cancel that first: verge volume move --cancel", title, "%s, since %s", volumeWords(i.Volumes, ""), i.Volumes.Since.Format(time.RFC3339))
		case i.Pinned != worker:
			return i, wire.Problemf(http.StatusConflict, "volume-unused", "verge describe instance/"+i.ID, title, "%s is on %q, and does not wait for worker %s", i.ID, cmp.Or(i.Pinned, "no worker"), worker)
		case !t.m.Away(worker):
			return i, wire.Problemf(http.StatusConflict, "worker-there", "move it instead: verge volume move … --to WORKER", title, "worker %s, which has it, is there", worker)
		}
		return t.giveUpVolumes(i, worker, rest.Caller(ctx), now), nil
	})
}

// giveUpVolumes lets an instance begin elsewhere, without what it has on a worker.
func (t *tx) giveUpVolumes(i wire.Instance, worker, by string, now time.Time) wire.Instance {
	why := fmt.Sprintf("given up by %s while worker %s was away", by, worker)
	t.leaveVolumes(&i, t.shareFor(&i), worker, "they were "+why, by)
	t.Event("instance/"+i.ID, "its volumes on worker %s were %s; it begins elsewhere with empty ones", worker, why)
	if i.State == wire.Running || i.State == wire.WorkerScheduled {
		i = t.Advance(i, wire.Failed, now, t.m.Tier(), "its volumes were "+why)
	}
	// Without a shadow: where that worker comes back, what it runs is ended, and is not
	// taken for the original.
	i.Worker, i.Pinned, i.Former, i.Shadow = "", "", "", nil
	i.Ready, i.Draining, i.Unreachable, i.Asleep = false, false, false, false
	i.Avoid, i.LastExit = nil, nil
	return i
}

// removedVolume notes that a volume is not on a worker any more; was says whether it was
// one that did not count.
func (b backend) removedVolume(ctx context.Context, worker string, r wire.VolumeRef) (was bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m.isLeft(worker, r) == "" {
		return false, nil
	}
	next := *b.m.leftVolumes[worker+"."+r.Instance]
	next.Volumes = slices.DeleteFunc(slices.Clone(next.Volumes), func(v string) bool { return v == r.Name })
	change := &next
	if len(next.Volumes) == 0 {
		change = nil
	}
	t := b.m.begin()
	t.leftVolumes[next.Key()] = change
	if err := b.keeper.Whole(ctx, t); err != nil {
		return true, unstored(err)
	}
	return true, nil
}
