//go:build !linux

package orphans

import (
	"errors"
	"fmt"
)

// kill refuses: without pidfd the signal could reach another process.
func (s Processes) kill(pid int, whose string, _ func(owner) bool) error {
	return fmt.Errorf("end left-over process %d of %s: %w", pid, whose, errors.ErrUnsupported)
}
