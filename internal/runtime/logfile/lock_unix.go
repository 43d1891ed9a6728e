//go:build unix

package logfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix" // flock, fallocate and lseek's SEEK_DATA are not in package syscall
)

// lock takes the rotation lock of dir, or returns ok false when another
// rotation has it. The kernel frees it if we die.
func lock(dir string) (unlock func(), ok bool, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, false, fmt.Errorf("lock log directory: %w", err)
	}
	err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		_ = d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("lock log directory: %w", err)
	}
	return func() { _ = d.Close() }, true, nil
}

// lockWait takes the same lock, and waits for whoever has it. That is never long: nobody
// holds it for more than one chunk or one rotation.
func lockWait(dir string) (unlock func(), err error) {
	d, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("lock log directory: %w", err)
	}
	for {
		err = unix.Flock(d, unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = unix.Close(d)
		return nil, fmt.Errorf("lock log directory: %w", err)
	}
	return func() { _ = unix.Close(d) }, nil
}
