package imagestore

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/runtime/container/imagefiles"
)

// SetUser sets who a container runs as; "" is who the image says. Names are looked
// up in its files, once.
func (p *Resolved) SetUser(ctx context.Context, c oci.Client, made *containers.Container, spec *specs.Spec,
	name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u, ok := p.users[name]; ok {
		u.AdditionalGids = slices.Clone(u.AdditionalGids)
		spec.Process.User = u
		return nil
	}
	wanted := name
	if wanted == "" {
		wanted = p.Config.User
	}
	mounts, err := c.SnapshotService(made.Snapshotter).Mounts(ctx, made.SnapshotKey)
	if err != nil {
		return fmt.Errorf("look into the image for its users: %w", err)
	}
	var u specs.User
	err = inImage(ctx, c, made.ID, mounts, func(files fs.FS) (err error) {
		u, err = imagefiles.User(files, wanted)
		return err
	})
	switch {
	case err == nil:
	case name != "":
		return fmt.Errorf("user %q is not one of the image: %w; write its number", name, err)
	case wanted != "":
		return fmt.Errorf("user %q, which the image says, is not one of it: %w; write another with user", wanted, err)
	default:
		return fmt.Errorf("groups of user root: %w", err)
	}
	if len(p.users) >= maxUsers {
		clear(p.users)
	}
	p.users[name] = u
	u.AdditionalGids = slices.Clone(u.AdditionalGids)
	spec.Process.User = u
	return nil
}

// inImage calls f with the files that mounts show: without mounting them where they are
// directories that can be seen from here.
func inImage(ctx context.Context, c oci.Client, id string, mounts []mount.Mount, f func(fs.FS) error) error {
	if len(mounts) == 1 {
		if dirs := layers(mounts[0]); len(dirs) > 0 {
			if t, err := imagefiles.Open(dirs); err == nil {
				defer t.Close()
				return f(t)
			}
		}
	}
	// Some kinds of mounts only containerd can make.
	if m, ok := c.(interface{ MountManager() mount.Manager }); ok {
		id += "-users"
		active, err := m.MountManager().Activate(ctx, id, mounts)
		if err == nil {
			defer m.MountManager().Deactivate(ctx, id) //nolint:errcheck // what is left of it containerd collects
			mounts = active.System
		} else if !errdefs.IsNotImplemented(err) {
			return fmt.Errorf("look into the image: %w", err)
		}
	}
	return mount.WithReadonlyTempMount(ctx, mounts, func(dir string) error {
		t, err := imagefiles.Open([]string{dir})
		if err != nil {
			return err
		}
		defer t.Close()
		return f(t)
	})
}
