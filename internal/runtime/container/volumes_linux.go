package container

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/container/ocispec"
)

// maxImageVolumes bounds how many directories an image may say that it writes to.
const maxImageVolumes = 64

// elsewhere are the directories in which nothing is of the image.
var elsewhere = []string{"/proc", "/sys", "/dev", "/tmp"}

// imageVolumes are the directories that an image says its program writes to (VOLUME), as
// clean paths in the order of mounting them, without those that are writable anyway: all
// of them where the root is, and what the service mounts something at or above.
func imageVolumes(s runtime.Spec, image *imagestore.Resolved) []string {
	if s.Container.Security.WritableRoot {
		return nil
	}
	cwd := workingDir(s, image)
	covered := slices.Clone(elsewhere)
	for _, m := range s.Container.Mounts {
		target := m.Target
		if !path.IsAbs(target) {
			target = path.Join(cwd, target)
		}
		covered = append(covered, path.Clean(target))
	}
	var out []string
	for v := range image.Config.Volumes {
		v = path.Clean("/" + v)
		if v == "/" || v == "/run" || slices.ContainsFunc(covered, func(dir string) bool { return below(v, dir) }) {
			continue
		}
		out = append(out, v)
	}
	slices.Sort(out) // what is in another one comes after it
	return slices.Compact(out)
}

// below says whether a clean path is dir or in it.
func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// volumeMounts make directories of a container writable whose root is read only: each is
// mounted once more, by itself, in its own place. So it has what the image has there, with
// its owners, and is on the same disk and gone at the same time as the rest of the
// container's files. files are the mounts of those, which nobody else uses yet.
func volumeMounts(ctx context.Context, dirs []string, files []mount.Mount, seen ctrd.Mounts) ([]specs.Mount, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	if len(dirs) > maxImageVolumes {
		return nil, fmt.Errorf("the image says %d volumes, and may say %d at most; security: {root: writable} does without them", len(dirs), maxImageVolumes)
	}
	var out []specs.Mount
	if seen.Root != "" { // its files cannot be mounted here: a copy in memory
		for _, dir := range dirs {
			out = append(out, specs.Mount{Destination: dir, Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "nodev", "tmpcopyup", fmt.Sprintf("size=%d", ocispec.TmpBytes)}})
		}
		return out, nil
	}
	err := mount.WithTempMount(ctx, files, func(top string) error {
		root, err := os.OpenRoot(top)
		if err != nil {
			return err
		}
		defer root.Close() //nolint:errcheck // what is made through it is synced
		for _, dir := range dirs {
			// runc finds the source from the machine's root on, to which a link of the
			// image must not lead.
			at, err := filecopy.Resolve(root, dir)
			if err == nil {
				err = put(root, at, true)
			}
			if err != nil {
				return fmt.Errorf("the image's volume %s: %w", dir, err)
			}
			to := path.Join("/", at)
			if to == "/" || slices.ContainsFunc(elsewhere, func(d string) bool { return below(to, d) }) {
				continue
			}
			// Relative to the bundle, where the files are mounted as "rootfs".
			out = append(out,
				specs.Mount{Destination: to, Type: "bind", Source: path.Join(rootfsDir, at), Options: []string{"rbind", "rw"}})
		}
		return nil
	})
	return out, err
}
