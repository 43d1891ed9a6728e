//go:build !linux

package obs

import (
	"os"

	"golang.org/x/sys/unix"
)

// duplicate makes the descriptor of old lead to where from does.
func duplicate(from, old *os.File) error { return unix.Dup2(int(from.Fd()), int(old.Fd())) }
