package orphans

import (
	"errors"
	"fmt"

	// unix has pidfd, so that a signal reaches the process that was checked, not another that has
	// its number since.
	"golang.org/x/sys/unix"
)

// kill ends one process if it is still the one that was found.
func (s Processes) kill(pid int, whose string, meant func(owner) bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end left-over process %d of %s: %w", pid, whose, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !meant(s.owner(pid)) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end left-over process %d of %s: %w", pid, whose, err)
	}
	return nil
}
