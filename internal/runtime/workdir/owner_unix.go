//go:build unix

package workdir

import (
	"os"
	"syscall"

	"github.com/verge-edge/verge/internal/filecopy"
)

// ownerOf a file, nil where it is that of this process, or not known.
func ownerOf(root *os.Root, name string) *filecopy.Owner {
	st, err := root.Lstat(name)
	if err != nil {
		return nil
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) == os.Geteuid() && int(sys.Gid) == os.Getegid() {
		return nil
	}
	return &filecopy.Owner{UID: int(sys.Uid), GID: int(sys.Gid)}
}

// ownedBy says whether a file is the owner's; nil is anybody.
func ownedBy(o *filecopy.Owner, st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return o == nil || ok && int(sys.Uid) == o.UID && int(sys.Gid) == o.GID
}
