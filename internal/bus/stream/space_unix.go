//go:build unix

package stream

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// MinFree is the space that is left free: JetStream does not recover from a disk that is
// entirely full without a restart.
const MinFree = 32 << 20

// FreeBytes is the space that this process may still write in dir.
func FreeBytes(dir string) (uint64, error) {
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

// CheckHandles says whether new files can be made in dir, and opened by this process.
func CheckHandles(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("free inodes of %s: %w", dir, err)
	}
	// Some file systems have no fixed number of inodes and say 0 of 0.
	//nolint:unconvert // of other types on other systems
	if free := uint64(st.Ffree); st.Files > 0 && free < minHandles {
		return fmt.Errorf("disk under %s has no room for files: %d inodes are free, %d are needed: "+
			"remove files, writing resumes by itself", dir, free, minHandles)
	}
	if free, err := freeDescriptors(dir, minHandles); err != nil {
		return fmt.Errorf("this process has no room for open files: %d file descriptors are free, %d are needed: "+
			"raise its limit (LimitNOFILE of the unit, ulimit -n), writing resumes by itself: %w", free, minHandles, err)
	}
	return nil
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
