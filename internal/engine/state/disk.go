package state

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// spareRoom is what a copy leaves of a disk, or a sixteenth of a smaller one: the /tmp of
// a container is no larger than that.
const spareRoom = 64 << 20

// RoomFor is how much may be written to the file system of a file that is open.
func RoomFor(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	all := int64(st.Blocks) * int64(st.Bsize)  //nolint:gosec,unconvert // they differ between systems
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:gosec,unconvert // they differ between systems
	if all == 0 {
		return math.MaxInt64, nil // it has no bound, or does not tell
	}
	return free - min(spareRoom, all/16), nil
}

// RoomAt is that of a directory.
func RoomAt(dir string) (int64, error) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	return RoomFor(f)
}
