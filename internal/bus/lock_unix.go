//go:build unix

package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix" // fcntl, which package syscall does not offer

	"github.com/verge-edge/verge/internal/atomicfile"
)

// lockDir makes dir if needed and keeps other processes from serving it: two
// servers on one log would destroy it. The lock ends with the file.
func lockDir(dir string) (*os.File, error) {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make bus directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock bus directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("bus directory %s is in use by another process: stop it or choose another directory: %w", dir, err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// freeBytes is the space that this process may still write in dir.
func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil //nolint:unconvert // of other types on other systems
}

// minHandles is how many inodes and file descriptors a store leaves free. JetStream needs
// some for a new file of the log, and if it does not get them it refuses all writes until
// the process is started again.
const minHandles = 32

// Where there are manyHandles it is not looked up again for looksAgain: whoever writes much
// would take and give back as many with each write. More are not taken, as others need them.
const (
	manyHandles = 2 * minHandles
	looksAgain  = 50 * time.Millisecond
)

// handles remembers that there were many.
type handles struct {
	mu     sync.Mutex
	many   time.Time // when there were, zero if there were not
	looked int       // how often it was looked up
}

// check says whether new files can be made in dir, and opened by this process.
func (h *handles) check(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.many.IsZero() && now.Sub(h.many) < looksAgain {
		return nil
	}
	h.looked++
	h.many = time.Time{}
	free, err := freeHandles(dir)
	if err == nil && free >= manyHandles {
		h.many = now
	}
	return err
}

// freeHandles is how many files can be made in dir and opened by this process, at most
// manyHandles; an error where they are too few.
func freeHandles(dir string) (int, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free inodes of %s: %w", dir, err)
	}
	// Some file systems have no fixed number of inodes and say 0 of 0.
	//nolint:unconvert // of other types on other systems
	inodes := uint64(st.Ffree)
	if st.Files == 0 {
		inodes = manyHandles
	}
	if inodes < minHandles {
		return 0, fmt.Errorf("disk under %s has no room for files: %d inodes are free, %d are needed: remove files, writing resumes by itself", dir, inodes, minHandles)
	}
	free, err := freeDescriptors(dir, manyHandles)
	if free < minHandles {
		return free, fmt.Errorf("this process has no room for open files: %d file descriptors are free, %d are needed: raise its limit (LimitNOFILE of the unit, ulimit -n), writing resumes by itself: %w", free, minHandles, err)
	}
	return int(min(inodes, uint64(free))), nil //nolint:gosec // at most manyHandles
}

// freeDescriptors takes n descriptors, of dir, and gives them back: the kernel does not say
// how many are left. With an error it returns how many there were.
func freeDescriptors(dir string, n int) (free int, err error) {
	fds := make([]int, 0, n)
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // nothing was done with it
		}
	}()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		if fds = append(fds, fd); len(fds) == n {
			break
		}
		fd, err = unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0) //nolint:gosec // a descriptor
	}
	return len(fds), err
}
