package container

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
)

var _ runtime.Housed = (*task)(nil)

// Files implements runtime.Housed: by what the kernel shows of the main process, so
// that nothing need be in the image for it.
func (t *task) Files(f func(root *os.Root, dir string) error) error {
	if t.end.Over() || t.proc == nil {
		return runtime.ErrGone
	}
	proc := "/proc/" + strconv.Itoa(t.proc.Pid)
	root, err := os.OpenRoot(proc + "/root")
	var dir string
	var r fileRights
	if err == nil {
		defer root.Close() //nolint:errcheck // nothing is written through it
		dir, err = os.Readlink(proc + "/cwd")
	}
	if err == nil {
		r, err = rightsOf(proc + "/status")
	}
	// What was opened was the task's if the task is still there now.
	if t.end.Over() || t.proc.Ended() {
		return runtime.ErrGone
	}
	if err != nil {
		return fmt.Errorf("look into the container: %w", err)
	}
	return r.do(func() error { return f(root, dir) })
}

// fileRights are what a process may do to files.
type fileRights struct {
	uid, gid int
	groups   []uint32
	caps     uint64 // effective capabilities
}

// rightsOf reads the rights of a process from its status.
func rightsOf(path string) (r fileRights, err error) {
	f, err := os.Open(path) //nolint:gosec // in /proc
	if err != nil {
		return r, err
	}
	defer f.Close() //nolint:errcheck // read only
	found := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		fields := strings.Fields(value)
		var err error
		switch name {
		case "Uid", "Gid": // real, effective, saved, of files
			if len(fields) != 4 {
				return r, fmt.Errorf("%s: %q is not understood", path, s.Text())
			}
			var n int
			n, err = strconv.Atoi(fields[3])
			if name == "Uid" {
				r.uid = n
			} else {
				r.gid = n
			}
		case "Groups":
			for _, g := range fields {
				var n uint64
				if n, err = strconv.ParseUint(g, 10, 32); err != nil {
					break
				}
				r.groups = append(r.groups, uint32(n))
			}
		case "CapEff":
			r.caps, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		default:
			continue
		}
		if err != nil {
			return r, fmt.Errorf("%s: %q: %w", path, s.Text(), err)
		}
		found++
	}
	if found != 4 {
		return r, fmt.Errorf("%s has not all that is needed", path)
	}
	return r, nil
}

// do calls f with these rights, on a thread of its own that ends with it: rights are
// a thread's, and nobody else is to have these.
func (r fileRights) do(f func() error) error {
	if strconv.IntSize < 64 {
		return errors.New("files of containers are copied on 64-bit systems only")
	}
	return onthread.Do(func() error {
		if err := r.take(); err != nil {
			return err
		}
		return f()
	})
}

// take gives these rights to the thread.
func (r fileRights) take() error {
	var first unsafe.Pointer
	if len(r.groups) > 0 {
		first = unsafe.Pointer(&r.groups[0])
	}
	// The library's own would be for all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(r.groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("take the groups of the container's user: %w", errno)
	}
	if err := unix.Setfsgid(r.gid); err != nil {
		return fmt.Errorf("take the group of the container's user: %w", err)
	}
	if err := unix.Setfsuid(r.uid); err != nil {
		return fmt.Errorf("take the rights of the container's user: %w", err)
	}
	if now, err := unix.SetfsuidRetUid(-1); err != nil || now != r.uid {
		return fmt.Errorf("take the rights of the container's user: they are those of %d, not %d: %w", now, r.uid,
			errors.Join(err, unix.EPERM))
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return fmt.Errorf("take the capabilities of the container: %w", err)
	}
	caps[0].Effective &= uint32(r.caps)
	caps[1].Effective &= uint32(r.caps >> 32)
	if err := unix.Capset(&head, &caps[0]); err != nil {
		return fmt.Errorf("take the capabilities of the container: %w", err)
	}
	return nil
}
