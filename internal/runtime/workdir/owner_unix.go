//go:build unix

package workdir

import (
	"os"
	"syscall"
)

// ownerOf a file, nil where it is that of this process, or not known.
func ownerOf(root *os.Root, name string) *owner {
	st, err := root.Lstat(name)
	if err != nil {
		return nil
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) == os.Geteuid() && int(sys.Gid) == os.Getegid() {
		return nil
	}
	return &owner{uid: int(sys.Uid), gid: int(sys.Gid)}
}
