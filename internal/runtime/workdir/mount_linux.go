package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/filecopy"
)

// CannotMount says why this process may not mount file systems, "" if it may.
var CannotMount = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "verge-mount-")
	if err != nil {
		return "no directory can be made to try it: " + err.Error()
	}
	defer os.Remove(dir) //nolint:errcheck // empty, and in a directory for such
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4k"); err != nil {
		if os.Geteuid() != 0 {
			return "the worker does not run as root"
		}
		return fmt.Sprintf("the system forbids it (%v)", err)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		return fmt.Sprintf("the system forbids to end it (%v)", err)
	}
	return ""
})

// mountTmpfs mounts a directory in memory, of size bytes, at dir. It is the owner's; nil is
// this process.
func mountTmpfs(dir string, size int64, owner *filecopy.Owner) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	options := ofSize(size) + ",mode=0700"
	if owner != nil {
		options += fmt.Sprintf(",uid=%d,gid=%d", owner.UID, owner.GID)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}
	return nil
}

// ofSize bounds what is in a directory in memory.
func ofSize(size int64) string {
	// A file needs a page anyway; those without content need a bound, too.
	const inodes = 1024
	return fmt.Sprintf("size=%d,nr_inodes=%d", size, size/4096+inodes)
}

// growTmpfs makes room for another file of size bytes in a directory in memory. What
// has been replaced there has its room until nobody has it open any more.
func growTmpfs(dir string, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	need, page := size+2*int64(os.Getpagesize()), fs.Bsize
	if int64(fs.Bfree)*page >= need { //nolint:gosec // pages of memory
		return nil
	}
	used := int64(fs.Blocks-fs.Bfree) * page //nolint:gosec // as above
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, ofSize(used+need)); err != nil {
		return fmt.Errorf("make more memory for it: %w", err)
	}
	return nil
}

// mountReadOnly mounts the directory from at dir, without what is mounted below
// it, such that nothing can be written.
func mountReadOnly(from, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(from, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount it: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return errors.Join(fmt.Errorf("make it read-only: %w", err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	return nil
}

// unmountBelow ends all mounts at and below dir, the innermost first.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(points) {
		err := unix.Unmount(p, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			// Whoever still uses it keeps it to himself; it is gone from here.
			err = unix.Unmount(p, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

// mountsBelow lists what is mounted at and below dir, in the order of mounting.
func mountsBelow(dir string) ([]string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(info)) {
		// 31 23 0:28 root point options …
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		point := unescape(f[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			out = append(out, point)
		}
	}
	return out, nil
}

// unescape undoes what the kernel does to spaces and backslashes: \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
