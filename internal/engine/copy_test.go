package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// A volume is packed when no copy into it goes on any more: what one has said is there
// is in it, and one that is not ready ends with the reason. None begins meanwhile, nor
// for what ran before.
func TestCopiesEndBeforeVolumesArePacked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		store := &shelf{put: map[string][]byte{}}
		r.stop()
		r.volumes = store
		r.start()
		o := order(0, 1, 100)
		o.Spec.Volumes = []api.Volume{{Path: "var/data", Name: "data"}}
		r.apply(o)
		in, err := r.e.instance(web0)
		if err != nil {
			t.Fatal(err)
		}
		before, err := in.Running()
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave, err := in.Enter(t.Context(), &before)
		if err != nil {
			t.Fatal(err)
		}
		stop := o
		stop.Stop, stop.Volumes = true,
			&wire.VolumeWork{Key: "k", Do: wire.VolumePack,
				Volumes: []wire.VolumeObject{{Name: "data", Object: "volumes/" + web0 + "/data"}}}
		r.apply(stop)
		after(time.Minute)
		busy := func(what string, err error) {
			t.Helper()
			var p *wire.Problem
			if !errors.As(err, &p) || p.Code != "volume-busy" || p.Status != 409 {
				t.Errorf("%s: %v", what, err)
			}
		}
		if ctx.Err() == nil {
			t.Fatal("the copy goes on")
		}
		busy("the copy", context.Cause(ctx))
		if store.tries() != 0 || r.status(web0).Volumes != nil {
			t.Fatal("it was packed while a copy wrote")
		}
		// The last that it wrote.
		if err := os.WriteFile(filepath.Join(r.dir, volumes.Dir, "default", web0, "data", "late"), []byte("late"),
			0o600); err != nil {
			t.Fatal(err)
		}
		leave()
		after(time.Minute)
		if got := r.status(web0).Volumes; got == nil || !got.Done || got.Volumes[0].Files != 1 {
			t.Fatalf("%+v", got)
		}
		_, err = in.Running()
		busy("a copy that begins", err)
		_, _, err = in.Enter(t.Context(), &before)
		busy("a copy that was about to begin", err)
		o.Incarnation = 2
		r.apply(o)
		if _, _, err = in.Enter(t.Context(), &before); err == nil {
			t.Error("a copy to what ran before writes to what runs now")
		}
		now, err := in.Running()
		if err != nil {
			t.Fatal(err)
		}
		_, leave, err = in.Enter(t.Context(), &now)
		if err != nil {
			t.Fatal(err)
		}
		leave()
	})
}
