package container

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
)

var _ runtime.Exchanger = (*task)(nil)

// moveMountBeneath is of kernels since 6.5, which x/sys does not name.
const moveMountBeneath = 0x200

// Exchange implements runtime.Exchanger: the file is mounted in the place of the one
// that runc has mounted, which is bound to what had its name then.
func (t *task) Exchange(_ context.Context, source string) error {
	if t.end.Over() || t.proc == nil {
		return runtime.ErrGone
	}
	spec, err := t.config()
	if err != nil {
		if t.proc.Ended() {
			return runtime.ErrGone
		}
		return err
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if m.Source != real {
			continue
		}
		if err := t.remount(real, m.Destination, slices.Contains(m.Options, "ro")); err != nil {
			if t.proc.Ended() {
				return runtime.ErrGone
			}
			return fmt.Errorf("mount it anew: %w", err)
		}
		return nil
	}
	return errors.New("the container has no mount of it")
}

// remount mounts a file at a path of the container, in the place of what is mounted
// there, to be read only if ro.
func (t *task) remount(file, at string, ro bool) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) {
		return errors.New("the kernel of this machine cannot (Linux 5.2 can)")
	}
	if err != nil {
		return err
	}
	defer unix.Close(tree) //nolint:errcheck // it is mounted, or nobody needs it
	if ro {
		err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil && !errors.Is(err, unix.ENOSYS) { // kernels before 5.12 cannot; its mode keeps it, too
			return err
		}
	}
	ns, err := unix.Open("/proc/"+strconv.Itoa(t.proc.Pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns) //nolint:errcheck // read only
	if t.proc.Ended() {  // then the number may be another's, and was it before the namespace was opened
		return runtime.ErrGone
	}
	return onthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
			return err
		}
		// The folder is looked up once: what runs there may exchange it for a link to
		// another one, of which nothing must be taken away.
		folder, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(at), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return fmt.Errorf("find %s in the container: %w", filepath.Dir(at), err)
		}
		defer unix.Close(folder) //nolint:errcheck // nothing was written to it
		if err := unix.Fchdir(folder); err != nil {
			return err
		}
		name := filepath.Base(at)
		var there, new unix.Stat_t
		if err := errors.Join(unix.Fstatat(folder, name, &there, unix.AT_SYMLINK_NOFOLLOW), unix.Fstat(tree, &new)); err != nil {
			return err
		}
		if there.Dev != new.Dev || there.Mode&unix.S_IFMT != unix.S_IFREG {
			return fmt.Errorf("what is at %s in the container is not the file that was mounted there", at)
		}
		// Below what is there, which is then taken away: whoever looks finds one of them.
		err = unix.MoveMount(tree, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH|moveMountBeneath)
		if err == nil {
			return unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		// Older kernels can only put it on top, where it hides the one before.
		return unix.MoveMount(tree, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH)
	})
}
