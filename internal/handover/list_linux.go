package handover

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newList is a file without a name, in memory: a full disk keeps no process from handing
// over.
func newList() (*os.File, error) {
	fd, err := unix.MemfdCreate("verge-sockets", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "verge-sockets"), nil
}
