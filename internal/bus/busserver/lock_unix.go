//go:build unix

package busserver

import (
	"fmt"
	"path/filepath"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// lockDir makes dir if needed and keeps other processes from serving it: two
// servers on one log would destroy it.
func lockDir(dir string) (unlock func(), err error) {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make bus directory: %w", err)
	}
	unlock, err = atomicfile.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("lock bus directory %s (stop the process that uses it, or choose another directory): %w", dir, err)
	}
	return unlock, nil
}
