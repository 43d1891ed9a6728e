package volume

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// syncAll lets all that is in the file system of dir reach the disk: one call for any
// number of files.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return Sync(f)
}

// Sync lets all that is in the file system of an open file reach the disk.
func Sync(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// dateLink sets the time of a symbolic link itself.
func dateLink(root *os.Root, name string, at time.Time) error {
	dir, err := root.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only read
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(int(dir.Fd()), filepath.Base(name), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
