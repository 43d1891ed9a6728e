package container

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	taskapi "github.com/containerd/containerd/api/types"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/container/ocispec"
)

// sharedPrefix begins the names of shared root file systems among the snapshots; versions
// before know it.
const sharedPrefix = "verge-ground-"

// maxShared bounds what is kept in memory of them.
const maxShared = 256

// errUnfit is wrapped where a container may be started on files of its own.
var errUnfit = errors.New("what containers of this image share does not do for it")

// sharedRootfs is a read-only snapshot that containers of one image share: the files of the
// image, and the places at which something is mounted, which runc would make anew for each.
// It saves each start three synchronous writes to the disk, and a dozen files and directories.
//
// It has no owner: each container on it holds it, as containerd sees it. Without any it is
// collected as garbage, and the next start makes it again.
type sharedRootfs struct {
	key    string // of the snapshot
	points []point
	mounts []mount.Mount
}

// point is a path at which something is mounted.
type point struct {
	path string
	dir  bool
}

// sharedRoots are those that are known; guarded by Driver.mu.
type sharedRoots struct {
	known map[string][]mount.Mount // by their keys
	unfit map[string]bool          // of which is known that a container does not start there
	turn  gate                     // one is made at a time
}

// gate is a mutex for which one may stop waiting.
type gate chan struct{}

// sharedRootfsOf is what a container stands on, nil where it needs files of its own; free lets
// go of it once there is a container on it.
func (d *Driver) sharedRootfsOf(ctx context.Context, c *containerd.Client, image *imagestore.Resolved, s runtime.Spec,
	seen ctrd.Mounts) (g *sharedRootfs, free func()) {
	free = func() {}
	if s.Container.Security.WritableRoot || seen.Root != "" || image.Snapshotter != "overlayfs" || image.Chain == "" {
		return nil, free
	}
	if len(imageVolumes(s, image)) > 0 {
		return nil, free
	}
	points, err := mountPoints(s, image, seen)
	if err != nil {
		return nil, free // which is said when it is described
	}
	g = &sharedRootfs{key: sharedKey(image.Chain, points), points: points}
	d.mu.Lock()
	unfit := d.shared.unfit[g.key]
	g.mounts = d.shared.known[g.key]
	d.mu.Unlock()
	if unfit {
		return nil, free
	}
	if g.mounts != nil {
		return g, free
	}
	free, err = d.findOrMake(ctx, c, image, g)
	if err != nil {
		d.log.Debug("a container gets files of its own", "instance", s.ID, "error", err)
		if ctx.Err() == nil && !ctrd.IsNotFound(err) && !errors.Is(d.conn.OrAway(err), runtime.ErrAway) {
			d.refuseShared(g)
		}
		return nil, func() {}
	}
	return g, free
}

// mountShared makes sure that a shared rootfs is there, when there is a container on it: from then on
// it stays.
func (d *Driver) mountShared(ctx context.Context, c *containerd.Client, image *imagestore.Resolved,
	g *sharedRootfs) ([]*taskapi.Mount, error) {
	list, err := c.SnapshotService(image.Snapshotter).Mounts(ctx, g.key)
	if ctrd.IsNotFound(err) {
		var free func()
		if free, err = d.findOrMake(ctx, c, image, g); err == nil {
			free()
			list = g.mounts
		}
	}
	if e := d.conn.OrAway(err); err != nil && (ctx.Err() != nil || errors.Is(e, runtime.ErrAway)) {
		return nil, e
	}
	if err != nil {
		d.refuseShared(g)
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	return toMount(list), nil
}

// forgetShared forgets a shared rootfs, so that the next start looks for it.
func (d *Driver) forgetShared(g *sharedRootfs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.shared.known, g.key)
}

// refuseShared notes that containers like this one need files of their own.
func (d *Driver) refuseShared(g *sharedRootfs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.shared.unfit) >= maxShared {
		clear(d.shared.unfit)
	}
	d.shared.unfit[g.key] = true
	delete(d.shared.known, g.key)
}

// rootfsRefused says whether runc could not start a container because of its shared rootfs.
func rootfsRefused(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "read-only file system") || strings.Contains(err.Error(),
		"failed to mount rootfs component"))
}

// toMount are mounts as a task is told of them.
func toMount(list []mount.Mount) []*taskapi.Mount {
	out := make([]*taskapi.Mount, len(list))
	for i, m := range list {
		out[i] = &taskapi.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options}
	}
	return out
}

// mountPoints are the paths at which something is mounted in a container, and its
// working directory, which is made where there is none.
func mountPoints(s runtime.Spec, image *imagestore.Resolved, seen ctrd.Mounts) ([]point, error) {
	cwd := workingDir(s, image)
	own, err := ownMounts(s, cwd, specs.User{}, seen)
	if err != nil {
		return nil, err
	}
	points := []point{{"/proc", true}, {"/dev", true}, {"/sys", true}, {"/run", true}, {cwd, true}}
	for _, m := range append(ocispec.Tmp(s, image), own...) {
		dir := true
		if m.Type == "bind" {
			info, err := os.Stat(m.Source)
			if err != nil {
				return nil, err
			}
			dir = info.IsDir()
		}
		points = append(points, point{path.Clean(m.Destination), dir})
	}
	slices.SortFunc(points, func(a, b point) int { return strings.Compare(a.path, b.path) })
	return points, nil
}

// sharedKey names what is the same for all containers with these files and these points.
func sharedKey(chain string, points []point) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s", chain) // a hash never fails
	for _, p := range points {
		_, _ = fmt.Fprintf(h, " %q %t", p.path, p.dir)
	}
	return sharedPrefix + hex.EncodeToString(h.Sum(nil)[:12])
}

// findOrMake finds a shared rootfs, or makes it. free lets go of it.
func (d *Driver) findOrMake(ctx context.Context, c *containerd.Client, image *imagestore.Resolved,
	g *sharedRootfs) (free func(), err error) {
	select {
	case d.shared.turn <- struct{}{}:
		defer func() { <-d.shared.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	files := c.SnapshotService(image.Snapshotter)
	free = func() {}
	g.mounts, err = files.Mounts(ctx, g.key)
	if ctrd.IsNotFound(err) {
		// What nobody refers to yet is held by a lease.
		var leased context.Context
		if leased, free, err = d.shortLease(ctx, c); err != nil {
			return nil, err
		}
		if g.mounts, err = makeSharedRootfs(leased, files, image.Chain, g); err != nil {
			free()
		}
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.shared.known) >= maxShared {
		clear(d.shared.known)
	}
	d.shared.known[g.key] = g.mounts
	return free, nil
}

// shortLease holds what is made with its context until done is called, or for a while
// where containerd cannot be told.
func (d *Driver) shortLease(ctx context.Context,
	c *containerd.Client) (leased context.Context, done func(), err error) {
	l, err := c.LeasesService().Create(ctx, leases.WithRandomID(), leases.WithExpiration(time.Hour))
	if err != nil {
		return nil, nil, d.conn.OrAway(err)
	}
	end := func(ctx context.Context) error {
		c, release, err := d.conn.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
		if err := c.LeasesService().Delete(namespaces.WithNamespace(ctx, ctrd.Namespace), l); err != nil && !ctrd.IsNotFound(err) {
			return d.conn.OrAway(err)
		}
		return nil
	}
	return leases.WithLease(ctx, l.ID), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftoverTimeout)
		defer cancel()
		if end(ctx) != nil {
			d.oweThat(l.ID, end)
		}
	}, nil
}

// makeSharedRootfs makes a snapshot of the image's files with the points in it.
func makeSharedRootfs(ctx context.Context, files snapshots.Snapshotter, chain string,
	g *sharedRootfs) ([]mount.Mount, error) {
	layer := g.key + "-files"
	if _, err := files.Stat(ctx, layer); ctrd.IsNotFound(err) {
		var b [6]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, err
		}
		active := layer + "-" + hex.EncodeToString(b[:])
		mounted, err := files.Prepare(ctx, active, chain)
		if err != nil {
			return nil, err
		}
		err = mount.WithTempMount(ctx, mounted, func(dir string) error { return putPoints(dir, g.points) })
		if err == nil {
			err = files.Commit(ctx, layer, active)
		}
		if err != nil {
			if rerr := files.Remove(ctx, active); rerr != nil && !ctrd.IsNotFound(rerr) {
				err = errors.Join(err, rerr)
			}
			if !isThere(err) { // another engine may have been sooner
				return nil, err
			}
		}
	} else if err != nil {
		return nil, err
	}
	list, err := files.View(ctx, g.key, layer)
	if isThere(err) {
		list, err = files.Mounts(ctx, g.key)
	}
	return list, err
}

// isThere says so of what comes over the wire, too.
func isThere(err error) bool {
	return err != nil && (errdefs.IsAlreadyExists(err) || errdefs.IsAlreadyExists(errgrpc.ToNative(err)))
}

// putPoints makes what is not there of the points, as runc would.
func putPoints(dir string, points []point) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // what is written through it is synced
	for _, p := range points {
		at, err := filecopy.Resolve(root, p.path)
		if err != nil {
			return err
		}
		if err := put(root, at, p.dir); err != nil {
			return fmt.Errorf("make %s: %w", p.path, err)
		}
	}
	return nil
}

// put makes a directory or an empty file where there is nothing, and the directories on
// the way to it.
func put(root *os.Root, at string, dir bool) error {
	info, err := root.Lstat(at)
	switch {
	case err == nil && dir && !info.IsDir():
		return errors.New("it is no directory")
	case err == nil && !dir && info.IsDir():
		return errors.New("it is a directory")
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := put(root, path.Dir(at), true); err != nil {
		return err
	}
	// Modes are set, too: the umask is no matter of the image.
	if dir {
		err = root.Mkdir(at, 0o755)
		if err == nil {
			err = root.Chmod(at, 0o755)
		}
	} else {
		var f *os.File
		if f, err = root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			err = errors.Join(f.Chmod(0o644), f.Sync(), f.Close())
		}
	}
	if err != nil {
		return err
	}
	return syncIn(root, path.Dir(at))
}

// syncIn makes the names in a directory durable.
func syncIn(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
