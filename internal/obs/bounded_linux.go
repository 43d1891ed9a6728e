package obs

import (
	"os"

	// Dup3, which is there on all architectures of Linux.
	"golang.org/x/sys/unix"
)

// duplicate makes the descriptor of old lead to where from does. Programs that are
// started later do not get it, as before.
func duplicate(from, old *os.File) error {
	return unix.Dup3(int(from.Fd()), int(old.Fd()), 0)
}
