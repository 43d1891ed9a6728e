//go:build unix

package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

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
