package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked: another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Lock takes the lock of the file at path, which it makes if need be, or returns
// an error that wraps ErrLocked at once. The kernel gives the lock back when
// this process ends, however it does.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() {
		// Closing alone would leave the lock with a child that another part of
		// this process is starting at this moment, until it runs its program.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}, nil
}
