package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// A volume can be removed when nothing that is here, or is to be, names it; who
// comes later begins with an empty one.
func TestVolumesAreRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		ref := wire.VolumeRef{Namespace: "shop-team", Instance: web0, Name: "data"}
		o := order(0, 1, 100)
		o.Namespace = "shop-team"
		o.Spec.Volumes = []api.Volume{{Path: "data", Name: "data"}, {Path: "other", Name: "other"}}
		r.apply(o)
		dir := filepath.Join(r.dir, volumes.Dir, "shop-team", web0)
		if err := os.WriteFile(filepath.Join(dir, "data", "x"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		look := func(want ...bool) {
			t.Helper()
			list, err := r.e.Volumes(ctx)
			if err != nil || len(list) != len(want) {
				t.Fatalf("%+v, %v", list, err)
			}
			for i, v := range list {
				if v.InUse != want[i] || v.Instance != web0 || v.Namespace != "shop-team" || v.Changed.IsZero() {
					t.Errorf("%+v, in use should be %v", v, want[i])
				}
			}
		}
		refused := func(ref wire.VolumeRef, code string) {
			t.Helper()
			var p *wire.Problem
			err := r.e.RemoveVolume(ctx, ref)
			if code == "" && errors.Is(err, state.ErrBadQuery) {
				return
			}
			if !errors.As(err, &p) || p.Code != code {
				t.Errorf("%s: %v, want %q", ref, err, code)
			}
		}
		look(true, true)
		refused(ref, "volume-in-use")
		for _, bad := range []wire.VolumeRef{
			{Namespace: "..", Instance: web0, Name: "data"},
			{Namespace: "shop-team", Instance: "../../x", Name: "data"},
			{Namespace: "shop-team", Instance: web0, Name: "../data"}, {Namespace: "shop-team", Instance: web0}, {},
		} {
			refused(bad, "")
		}
		refused(wire.VolumeRef{Namespace: "others", Instance: web0, Name: "data"}, "no-such-volume")
		// A revision that does not name it any more.
		o.Revision, o.Spec = 2, &api.Service{Command: o.Spec.Command, Resources: o.Spec.Resources,
			Restart: o.Spec.Restart, Volumes: o.Spec.Volumes[1:]}
		o.Incarnation = 2
		r.apply(o)
		after(time.Minute)
		look(false, true)
		if err := r.e.RemoveVolume(ctx, ref); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		look(true)
		// And when it is gone for good.
		r.apply()
		after(time.Minute)
		look(false)
		ref.Name = "other"
		if err := r.e.RemoveVolume(ctx, ref); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		look()
		if left, err := os.ReadDir(filepath.Join(r.dir, volumes.Dir)); err != nil || len(left) != 0 {
			t.Errorf("there is still %v, %v", left, err)
		}
		o.Incarnation = 3
		r.apply(o)
		if list, err := os.ReadDir(filepath.Join(dir, "other")); err != nil || len(list) != 0 {
			t.Errorf("a new one has %v, %v", list, err)
		}
	})
}
