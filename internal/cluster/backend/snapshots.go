package backend

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// newSnapshot says why a snapshot cannot be put into an object, nil if it can.
func (b *Backend) newSnapshot(ctx context.Context, namespace, object string) error {
	const title = "the snapshot cannot be made"
	if !strings.HasPrefix(object, wire.SnapshotsPrefix) {
		return wire.Problemf(http.StatusUnprocessableEntity, "bad-name",
			"choose a name like "+wire.SnapshotsPrefix+"before-upgrade", title,
			"the names of snapshots begin with %s, and not %q", wire.SnapshotsPrefix, object)
	}
	all, err := b.ObjectStore.List(ctx, namespace)
	if err != nil {
		return err
	}
	if b.snapshot(namespace, object) != nil ||
		slices.ContainsFunc(all, func(v apiv1.ObjectView) bool { return v.Name == object && !v.Copy }) {
		return wire.Problemf(http.StatusConflict, "object-there",
			"choose another name, or remove that one: verge object rm "+object+" --namespace "+namespace, title,
			"there is an object %s in namespace %s already", object, namespace)
	}
	return nil
}

// snapshot finds what is known of a snapshot, nil if that is nothing.
func (b *Backend) snapshot(namespace, object string) *wire.Snapshot {
	return core.View(b.Core, func(m *state.Model) *wire.Snapshot {
		return volumes.Snapshots.Rows(m.DB)[namespace+"/"+object]
	})
}

// toRestore says what the object that a volume is to be restored from must be like. One
// that is not a snapshot of this cluster is taken by its digest, which whoever asks says.
func (b *Backend) toRestore(ctx context.Context, namespace string, q apiv1.VolumeSnapshotRequest) (digest string,
	err error) {
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
		return "", wire.Problemf(http.StatusConflict, "no-snapshot",
			"if it is what you want, say so by its digest: --sha256 "+has,
			"the object is not a snapshot that this cluster has taken",
			"%s of namespace %s was put there by %s, so nobody here knows what it should be", q.Object, namespace,
			cmp.Or(v.By, "somebody"))
	}
	if q.Digest != "" && q.Digest != has {
		return "", wire.Problemf(http.StatusConflict, "other-content", "look at it: verge object ls",
			"the object is not what you said", "%s has the digest sha256:%s, and not sha256:%s", q.Object, has,
			q.Digest)
	}
	return has, nil
}

// Snapshots implements rest.Backend.
func (b *Backend) Snapshots(ctx context.Context) ([]apiv1.SnapshotView, error) {
	all, err := b.ObjectStore.List(ctx, "")
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for i := range all {
		if !all[i].Copy {
			digests[all[i].Namespace+"/"+all[i].Name] = strings.TrimPrefix(all[i].Digest, "sha256:")
		}
	}
	out := []apiv1.SnapshotView{}
	core.Do(b.Core, func(m *state.Model) {
		for key, s := range volumes.Snapshots.Rows(m.DB) {
			out = append(out, apiv1.SnapshotView{Snapshot: *s, Cluster: b.ClusterName, State: s.StateOf(digests[key])})
		}
	})
	slices.SortFunc(out, func(x, y apiv1.SnapshotView) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Instance, y.Instance),
			strings.Compare(x.Volume, y.Volume), x.Taken.Compare(y.Taken), strings.Compare(x.Object, y.Object))
	})
	return out, nil
}

// mayTouch says why an object is not for who asks, nil if it is. What is in volumes a
// worker gets or gives only while an order to it says so, and a snapshot is not
// overwritten by anybody.
func (b *Backend) mayTouch(ctx context.Context, namespace, object string, do volumes.Touch) error {
	if !wire.OfVolumes(object) {
		return nil
	}
	who := access.From(ctx)
	if !who.Node {
		if do == volumes.TouchPut && b.snapshot(namespace, object) != nil {
			return wire.Problemf(http.StatusConflict, "object-there",
				"remove it first: verge object rm "+object+" --namespace "+namespace,
				"the object is a snapshot of a volume", "%s of namespace %s is not overwritten", object, namespace)
		}
		return nil
	}
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.ClusterName+"/")
	return core.View(b.Core, func(m *state.Model) error {
		if ok && volumes.OrdersVolume(m, worker, namespace, object, do) {
			return nil
		}
		return wire.Problemf(http.StatusForbidden, "not-ordered",
			"what is in volumes people copy: verge object get, with a role in the namespace", "not allowed",
			"no order to %s is about what is in %s of namespace %s", who.Name, object, namespace)
	})
}

// forgetSnapshot forgets a snapshot of which the object was removed. Where that fails it
// is listed as lost.
func (b *Backend) forgetSnapshot(ctx context.Context, namespace, object string) error {
	return core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		if key := namespace + "/" + object; volumes.Snapshots.Get(t.Rows, key) != nil {
			volumes.Snapshots.Put(t.Rows, key, nil)
		}
		return nil
	})
}
