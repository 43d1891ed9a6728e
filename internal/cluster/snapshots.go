package cluster

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// keySnapshot + namespace/object: wire.Snapshot.
const keySnapshot = "snapshot."

// noteSnapshot keeps what was packed of a volume: what is restored must be the same.
func (t *tx) noteSnapshot(i *wire.Instance, s *wire.Share, v wire.VolumeObject, now time.Time) {
	snap := wire.Snapshot{
		V: wire.Version, Namespace: wire.ShareNamespace(s), Object: v.Object, Instance: i.ID, Volume: v.Name, Worker: i.Volumes.From,
		Digest: v.Digest, Size: v.Size, Files: v.Files, Taken: now.UTC().Round(0), By: i.Volumes.By,
	}
	t.snapshots[snap.Key()] = &snap
}

// newSnapshot says why a snapshot cannot be put into an object, nil if it can.
func (b backend) newSnapshot(ctx context.Context, namespace, object string) error {
	const title = "the snapshot cannot be made"
	if !strings.HasPrefix(object, wire.SnapshotsPrefix) {
		return wire.Problemf(http.StatusUnprocessableEntity, "bad-name", "choose a name like "+wire.SnapshotsPrefix+"before-upgrade", title, "the names of snapshots begin with %s, and not %q", wire.SnapshotsPrefix, object)
	}
	all, err := b.shelf.List(ctx, namespace)
	if err != nil {
		return err
	}
	if b.snapshot(namespace, object) != nil || slices.ContainsFunc(all, func(v wire.ObjectView) bool { return v.Name == object && !v.Copy }) {
		return wire.Problemf(http.StatusConflict, "object-there", "choose another name, or remove that one: verge object rm "+object+" --namespace "+namespace, title, "there is an object %s in namespace %s already", object, namespace)
	}
	return nil
}

// snapshot finds what is known of a snapshot, nil if that is nothing.
func (b backend) snapshot(namespace, object string) *wire.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.snapshots[namespace+"/"+object]
}

// toRestore says what the object that a volume is to be restored from must be like. One
// that is not a snapshot of this cluster is taken by its digest, which whoever asks says.
func (b backend) toRestore(ctx context.Context, namespace string, q wire.VolumeSnapshotRequest) (digest string, err error) {
	v, body, err := b.GetObject(ctx, namespace, q.Object)
	if err == nil {
		err = body.Close()
	}
	if err != nil {
		return "", err
	}
	has := strings.TrimPrefix(v.Digest, "sha256:")
	if snap := b.snapshot(namespace, q.Object); snap != nil {
		if err := snap.Check(has); err != nil {
			return "", err
		}
	} else if q.Digest == "" {
		return "", wire.Problemf(http.StatusConflict, "no-snapshot", "if it is what you want, say so by its digest: --sha256 "+has, "the object is not a snapshot that this cluster has taken", "%s of namespace %s was put there by %s, so nobody here knows what it should be", q.Object, namespace, cmp.Or(v.By, "somebody"))
	}
	if q.Digest != "" && q.Digest != has {
		return "", wire.Problemf(http.StatusConflict, "other-content", "look at it: verge object ls", "the object is not what you said", "%s has the digest sha256:%s, and not sha256:%s", q.Object, has, q.Digest)
	}
	return has, nil
}

// Snapshots implements rest.Backend.
func (b backend) Snapshots(ctx context.Context) ([]wire.SnapshotView, error) {
	all, err := b.shelf.List(ctx, "")
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for i := range all {
		if !all[i].Copy {
			digests[all[i].Namespace+"/"+all[i].Name] = strings.TrimPrefix(all[i].Digest, "sha256:")
		}
	}
	out := []wire.SnapshotView{}
	b.mu.Lock()
	for key, s := range b.m.snapshots {
		out = append(out, wire.SnapshotView{Snapshot: *s, Cluster: b.name, State: s.StateOf(digests[key])})
	}
	b.mu.Unlock()
	slices.SortFunc(out, func(x, y wire.SnapshotView) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Instance, y.Instance), strings.Compare(x.Volume, y.Volume), x.Taken.Compare(y.Taken), strings.Compare(x.Object, y.Object))
	})
	return out, nil
}

// mayTouch says why an object is not for who asks, nil if it is. What is in volumes a
// worker gets or gives only while an order to it says so, and a snapshot is not
// overwritten by anybody.
func (b backend) mayTouch(ctx context.Context, namespace, object string, do touch) error {
	if !wire.OfVolumes(object) {
		return nil
	}
	who := access.From(ctx)
	if !who.Node {
		if do == touchPut && b.snapshot(namespace, object) != nil {
			return wire.Problemf(http.StatusConflict, "object-there", "remove it first: verge object rm "+object+" --namespace "+namespace, "the object is a snapshot of a volume", "%s of namespace %s is not overwritten", object, namespace)
		}
		return nil
	}
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.name+"/")
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok && b.m.ordersVolume(worker, namespace, object, do) {
		return nil
	}
	return wire.Problemf(http.StatusForbidden, "not-ordered", "what is in volumes people copy: verge object get, with a role in the namespace", "not allowed", "no order to %s is about what is in %s of namespace %s", who.Name, object, namespace)
}

// touch is what is to be done with an object.
type touch int

const (
	touchGet touch = iota
	touchPut
	touchRemove
)

// ordersVolume says whether an order to a worker lets it do something with an object
// that holds what is in a volume.
func (m *model) ordersVolume(worker, namespace, object string, do touch) bool {
	for key, o := range m.Orders {
		if o.Volumes == nil || o.Spec == nil || wire.OrderNamespace(o) != namespace || !strings.HasPrefix(key, worker+".") {
			continue
		}
		does := do == touchPut && o.Volumes.Do == wire.VolumePack || do == touchGet && (o.Volumes.Do == wire.VolumeUnpack || o.Volumes.Do == wire.VolumeRestore)
		if does && slices.ContainsFunc(o.Volumes.Volumes, func(v wire.VolumeObject) bool { return v.Object == object }) {
			return true
		}
	}
	return false
}

// forgetSnapshot forgets a snapshot of which the object was removed. Where that fails it
// is listed as lost.
func (b backend) forgetSnapshot(ctx context.Context, namespace, object string) error {
	key := namespace + "/" + object
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m.snapshots[key] == nil {
		return nil
	}
	t := b.m.begin()
	t.snapshots[key] = nil
	if err := b.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	return nil
}
