package wal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes a new file size zeros whose blocks are its own.
func allocate(f *os.File, size int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, size)
	}
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	return nil
}

func syncData(f *os.File) error { return again(func() error { return unix.Fdatasync(int(f.Fd())) }) }

// again repeats a system call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
