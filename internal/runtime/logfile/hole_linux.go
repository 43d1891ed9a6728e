package logfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// punchHole frees the whole blocks of the first n bytes of f, whose size stays.
// errors.ErrUnsupported if the file system cannot.
func punchHole(f *os.File, n int64) error {
	n -= n % blockSize
	if n <= 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return fmt.Errorf("fallocate: %w", errors.ErrUnsupported)
		case err != nil:
			return fmt.Errorf("fallocate: %w", err)
		}
		return nil
	}
}

// seekData returns the first position at or behind pos that is not in a hole,
// at most size.
func seekData(f *os.File, pos, size int64) (int64, error) {
	data, err := unix.Seek(int(f.Fd()), pos, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // a hole to the end
		return size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return pos, nil // the file system does not know holes
	case err != nil:
		return 0, err
	}
	return min(data, size), nil
}
