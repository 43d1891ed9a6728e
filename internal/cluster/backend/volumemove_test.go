package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What cannot come to anything is refused before anything is stopped, and while the
// instance of an application that was removed still ends.
func TestVolumeRefusals(t *testing.T) {
	b, _ := served(t)
	const id = "xapp.web.0"
	ref := wire.VolumeRef{Namespace: "xspace", Instance: id, Name: "data"}
	share := *b.M.Shares["xapp.web"]
	spec := *share.Spec
	spec.Volumes = []api.Volume{{Path: "d", Name: "data"}}
	share.Spec = &spec
	b.M.Shares["xapp.web"] = &share
	i := *b.M.Insts[id]
	i.Worker, i.Pinned, i.State = "xmachine", "xmachine", wire.Running
	b.M.Insts[id] = &i
	refused := func(what string, err error, status int, code string) {
		t.Helper()
		var p *wire.Problem
		if !errors.As(err, &p) || p.Status != status || p.Code != code || p.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	q := apiv1.VolumeSnapshotRequest{Object: "typo"}
	before := *b.M.Insts[id]
	refused("no such object", b.RestoreVolume(t.Context(), "xsite", "xmachine", ref, q), 404, "no-such-object")
	refused("no such volume", b.RestoreVolume(t.Context(), "xsite", "xmachine",
		wire.VolumeRef{Namespace: "xspace", Instance: id, Name: "other"}, q), 404, "no-such-volume")
	delete(b.M.Shares, "xapp.web")
	b.M.Workers["w2"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w2"}}, time.Now())
	refused("move", b.MoveVolumes(t.Context(), "xsite", "xmachine", ref, apiv1.VolumeMoveRequest{To: "w2"}), 409,
		"being-removed")
	refused("snapshot", b.SnapshotVolume(t.Context(), "xsite", "xmachine", ref, q), 409, "being-removed")
	refused("restore", b.RestoreVolume(t.Context(), "xsite", "xmachine", ref, q), 409, "being-removed")
	if now := b.M.Insts[id]; now.Volumes != nil || now.State != before.State {
		t.Errorf("it was stopped: %+v", now)
	}
	i.Volumes = &wire.VolumeMove{From: "xmachine", To: "w2", Work: wire.VolumeWork{Key: "k", Do: wire.VolumePack}}
	b.M.Insts[id] = &i
	refused("cancel", b.CancelVolumes(t.Context(), "xsite", "xmachine", ref), 409, "being-removed")
}
