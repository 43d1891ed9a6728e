package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/user" // what runc and containerd read such files with
	"github.com/opencontainers/runtime-spec/specs-go"
)

// oci.WithUser and oci.WithAdditionalGIDs would do what is here, but for size: containerd's
// view of an image's files takes text/template for one kind of mount. That calls methods by
// their names, so that the linker has to keep all methods of all types: 6.7 MB.

// maxGroups bounds /etc/group of an image, in bytes, as containerd does.
const maxGroups = 10 << 20

// setUser sets who a container runs as; "" is who the image says. Names are looked
// up in its files, once.
func (p *resolvedImage) setUser(ctx context.Context, c oci.Client, made *containers.Container, spec *specs.Spec, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u, ok := p.users[name]; ok {
		u.AdditionalGids = slices.Clone(u.AdditionalGids)
		spec.Process.User = u
		return nil
	}
	wanted := name
	if wanted == "" {
		wanted = p.config.User
	}
	mounts, err := c.SnapshotService(made.Snapshotter).Mounts(ctx, made.SnapshotKey)
	if err != nil {
		return fmt.Errorf("look into the image for its users: %w", err)
	}
	var u specs.User
	err = inImage(ctx, c, made.ID, mounts, func(files fs.FS) (err error) {
		u, err = userOf(files, wanted)
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
			if t, err := openTree(dirs); err == nil {
				defer t.close()
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
		t, err := openTree([]string{dir})
		if err != nil {
			return err
		}
		defer t.close()
		return f(t)
	})
}

// userOf finds who is meant by NAME, UID, either with :GROUP or :GID, and what other
// groups they are in. No name is root's. A UID need not be known.
func userOf(files fs.FS, wanted string) (u specs.User, err error) {
	name, group, grouped := strings.Cut(wanted, ":")
	if name == "" {
		name = "root"
	} else if u, name, err = userNamed(files, name); err != nil {
		return specs.User{}, err
	}
	if grouped {
		if u.GID, err = groupNamed(files, group); err != nil {
			return specs.User{}, err
		}
	}
	u.AdditionalGids = []uint32{u.GID}
	if name == "" {
		return u, nil
	}
	f, err := files.Open("etc/group")
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return specs.User{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	groups, err := user.ParseGroupFilter(io.LimitReader(f, maxGroups), func(g user.Group) bool {
		return g.Name != name && slices.Contains(g.List, name)
	})
	if err != nil {
		return specs.User{}, fmt.Errorf("its /etc/group: %w", err)
	}
	for _, g := range groups {
		if gid := uint32(g.Gid); !slices.Contains(u.AdditionalGids, gid) {
			u.AdditionalGids = append(u.AdditionalGids, gid)
		}
	}
	return u, nil
}

// userNamed finds a user and their name, which is "" for a number that the image does not know.
func userNamed(files fs.FS, text string) (u specs.User, name string, err error) {
	id, isNumber, err := number(text)
	if err != nil {
		return u, "", err
	}
	found, err := oci.UserFromFS(files, func(e user.User) bool {
		return isNumber && e.Uid == int(id) || !isNumber && e.Name == text
	})
	if isNumber && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, oci.ErrNoUsersFound)) {
		return specs.User{UID: id}, "", nil
	}
	if err != nil {
		return u, "", err
	}
	return specs.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}, found.Name, nil
}

func groupNamed(files fs.FS, text string) (uint32, error) {
	if id, isNumber, err := number(text); isNumber || err != nil {
		return id, err
	}
	return oci.GIDFromFS(files, func(g user.Group) bool { return g.Name == text })
}

// number is text as the number of a user or group, if it is one. runc takes none above
// those of 31 bits.
func number(text string) (id uint32, ok bool, err error) {
	n, err := strconv.Atoi(text)
	if errors.Is(err, strconv.ErrRange) || err == nil && (n < 0 || n > math.MaxInt32) {
		return 0, false, fmt.Errorf("%s is no number from 0 to %d", text, math.MaxInt32)
	}
	return uint32(n), err == nil, nil //nolint:gosec // it is in bounds
}
