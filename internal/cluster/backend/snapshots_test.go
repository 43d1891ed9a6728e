package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// shelved is a cluster with a volume that an instance uses, and how something is put
// into its object store.
func shelved(t *testing.T) (b *Backend, ref wire.VolumeRef,
	put func(ctx context.Context, name, text string) (digest string, err error)) {
	t.Helper()
	b, _ = served(t)
	const id = "xapp.web.0"
	share := *b.M.Shares["xapp.web"]
	spec := *share.Spec
	spec.Volumes = []api.Volume{{Path: "d", Name: "data"}}
	share.Spec = &spec
	b.M.Shares["xapp.web"] = &share
	i := *b.M.Insts[id]
	i.Worker, i.Pinned, i.State = "xmachine", "xmachine", wire.Running
	b.M.Insts[id] = &i
	w := b.M.Workers["xmachine"]
	w.EverHeard, w.Connected, w.Heard = true, true, time.Now()
	return b, wire.VolumeRef{Namespace: "xspace", Instance: id, Name: "data"},
		func(ctx context.Context, name, text string) (string, error) {
			v, err := b.PutObject(ctx, rest.ObjectUpload{Namespace: "xspace", Name: name, Size: -1,
				Body: strings.NewReader(text)})
			return strings.TrimPrefix(v.Digest, "sha256:"), err
		}
}

func refusedAs(t *testing.T, what string, err error, status int, code string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Status != status || p.Code != code || p.Remedy == "" {
		t.Errorf("%s: %v", what, err)
	}
}

// A snapshot is restored only as it was packed; what is none, only by its digest. What
// is wrong is said by name before anything is stopped.
func TestSnapshotsAreWhatTheyWere(t *testing.T) {
	b, ref, put := shelved(t)
	restore := func(object, digest string) error {
		return b.RestoreVolume(t.Context(), "xsite", "xmachine", ref,
			apiv1.VolumeSnapshotRequest{Object: object, Digest: digest})
	}
	taken := func(object, digest string) {
		volumes.Snapshots.Rows(b.M.DB)["xspace/"+object] = &wire.Snapshot{V: wire.Version, Namespace: "xspace",
			Object: object, Instance: ref.Instance, Volume: "data", Digest: digest, Taken: time.Now()}
	}
	digest, err := put(t.Context(), "snapshots/a", "all of it")
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0", 64)
	refusedAs(t, "nobody knows it", restore("snapshots/a", ""), 409, "no-snapshot")
	refusedAs(t, "another digest", restore("snapshots/a", other), 409, "other-content")
	taken("snapshots/a", other)
	if err := restore("snapshots/a", ""); err == nil || !strings.Contains(err.Error(), "snapshots/a") {
		t.Errorf("%v", err)
	}
	refusedAs(t, "changed", restore("snapshots/a", digest), 409, "snapshot-changed")
	refusedAs(t, "lost", restore("snapshots/lost", ""), 404, "no-such-object")
	if i := b.M.Insts[ref.Instance]; i.Volumes != nil {
		t.Fatalf("it is stopped: %+v", i.Volumes)
	}
	taken("snapshots/a", digest)
	if err := restore("snapshots/a", ""); err != nil {
		t.Fatal(err)
	}
	if w := b.M.Insts[ref.Instance].Volumes; w == nil || w.Work.Do != wire.VolumeRestore ||
		w.Work.Volumes[0].Digest != digest {
		t.Errorf("the worker is not told what it must be: %+v", w)
	}
	// Nobody overwrites one, whoever may store in the namespace, nor takes one again.
	_, err = put(t.Context(), "snapshots/a", "something else")
	refusedAs(t, "overwritten", err, 409, "object-there")
	snap := func(object string) error {
		return b.SnapshotVolume(t.Context(), "xsite", "xmachine", ref, apiv1.VolumeSnapshotRequest{Object: object})
	}
	refusedAs(t, "taken again", snap("snapshots/a"), 409, "object-there")
	refusedAs(t, "elsewhere", snap("mine"), 422, "bad-name")
	list, err := b.Snapshots(t.Context())
	if err != nil || len(list) != 1 || list[0].State != wire.SnapshotWhole {
		t.Errorf("%+v, %v", list, err)
	}
	taken("snapshots/b", digest)
	if list, err = b.Snapshots(t.Context()); err != nil || len(list) != 2 || list[1].State != wire.SnapshotLost {
		t.Errorf("%+v, %v", list, err)
	}
	// With its object a snapshot is gone; so is one that was lost.
	if _, err := b.RemoveObject(t.Context(), "xspace", "snapshots/a"); err != nil {
		t.Error(err)
	}
	_, err = b.RemoveObject(t.Context(), "xspace", "snapshots/b")
	refusedAs(t, "lost", err, 404, "no-such-object")
	if list, err = b.Snapshots(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A worker gets what is in a volume, or gives it, while an order to it says so, and no
// other; all else of a namespace of which it runs something it may have.
func TestWorkersTouchOnlyTheirVolumes(t *testing.T) {
	b, _, put := shelved(t)
	as := func(worker string) context.Context {
		return access.With(t.Context(), access.Who{Name: "worker/xsite/" + worker, Node: true,
			Reads: map[string]bool{"xspace": true}, Writes: map[string]bool{"xspace": true}})
	}
	for _, name := range []string{"snapshots/a", "volumes/xapp.web.0/data", "plain"} {
		if _, err := put(t.Context(), name, name); err != nil {
			t.Fatal(err)
		}
	}
	get := func(worker, name string) error {
		_, body, err := b.GetObject(as(worker), "xspace", name)
		if err == nil {
			err = body.Close()
		}
		return err
	}
	give := func(worker, name string) error { _, err := put(as(worker), name, "mine"); return err }
	drop := func(worker, name string) error {
		_, err := b.RemoveObject(as(worker), "xspace", name)
		return err
	}
	order := func(worker, do, object string) {
		b.M.Orders = map[string]*wire.Order{worker + ".xapp.web.0": {
			ID: "xapp.web.0", Namespace: "xspace", Spec: &api.Service{}, Stop: true,
			Volumes: &wire.VolumeWork{Key: "k", Do: do, Volumes: []wire.VolumeObject{{Name: "data", Object: object}}},
		}}
	}
	const moved, snap = "volumes/xapp.web.0/data", "snapshots/a"
	for _, c := range []struct {
		do, of string // the order
	}{
		{do: "", of: ""}, {do: wire.VolumePack, of: moved}, {do: wire.VolumeUnpack, of: moved},
		{do: wire.VolumeHold, of: moved}, {do: wire.VolumeRestore, of: snap},
	} {
		order("xmachine", c.do, c.of)
		for _, name := range []string{moved, snap} {
			mayGet := name == c.of && (c.do == wire.VolumeUnpack || c.do == wire.VolumeRestore)
			mayGive := name == c.of && c.do == wire.VolumePack
			for what, got := range map[string]struct {
				may bool
				err error
			}{
				"get": {mayGet, get("xmachine", name)}, "give": {mayGive, give("xmachine", name)},
				"drop":           {false, drop("xmachine", name)},
				"get by another": {false, get("w2", name)}, "give by another": {false, give("w2", name)},
				// The name of one must not begin that of another.
				"get by a namesake": {false, get("xmach", name)},
			} {
				if got.may && got.err == nil {
					continue
				}
				if got.may {
					t.Errorf("%s %s while it is to %q %s: %v", what, name, c.do, c.of, got.err)
					continue
				}
				refusedAs(t, what+" "+name+" while it is to "+c.do+" "+c.of, got.err, 403, "not-ordered")
			}
		}
	}
	if err := errors.Join(get("xmachine", "plain"), give("xmachine", "plain"), drop("xmachine", "plain")); err != nil {
		t.Error(err)
	}
}
