//go:build unix

package repair

import (
	"fmt"
	"os"
	"syscall"

	"github.com/verge-edge/verge/internal/wire"
)

// owned refuses a directory of another user.
func owned(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && int64(sys.Uid) != int64(os.Geteuid()) {
		return wire.Problemf(0, "other-user",
			fmt.Sprintf("run it as that user: sudo -u '#%d' verge records …", sys.Uid),
			"the data directory is another user's",
			"%s is of the user with number %d, and this is %d: the role could not read its files afterwards", dir,
			sys.Uid, os.Geteuid())
	}
	return nil
}
