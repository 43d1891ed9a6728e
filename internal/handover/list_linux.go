package handover

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newList is a file without a name, in memory: a full disk keeps no process from handing
// over.
func newList() (*os.File, error) {
	// Not to be executed, which some machines insist on and kernels before 6.3 don't know.
	fd, err := unix.MemfdCreate("verge-sockets", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("verge-sockets", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "verge-sockets"), nil
}
