package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MkdirAll is os.MkdirAll for directories that must survive a power cut: it syncs the
// directory that holds path, and those that hold what it has made on the way there. A
// directory that it may not read it leaves to the system: it was made by somebody else.
func MkdirAll(path string, perm os.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	top := filepath.Dir(path) // whose names are synced last
	for top != filepath.Dir(top) {
		if _, err := os.Stat(top); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		top = filepath.Dir(top)
	}
	if err := os.MkdirAll(path, perm); err != nil {
		return withoutInodes(top, err)
	}
	for dir := path; dir != top; {
		dir = filepath.Dir(dir)
		if err := SyncDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}
