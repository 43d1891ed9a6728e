package lab

import (
	"io/fs"
	"path/filepath"

	"github.com/verge-edge/verge/internal/wire"
)

// Groups lists the control groups that workers with these data directories have made
// and, being killed, may have left, outer ones first. They may be anywhere, and are
// all looked for at once, since that takes long.
func Groups(dirs ...string) (found []string) {
	named := map[string]bool{}
	for _, dir := range dirs {
		named[wire.Mark(dir)[:12]] = true
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		// Groups of others come and go: errors are no news.
		if err != nil || !d.IsDir() || filepath.Base(filepath.Dir(path)) != "verge" {
			return nil //nolint:nilerr // as said
		}
		if named[d.Name()] {
			_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					found = append(found, path)
				}
				return nil // as above
			})
		}
		return fs.SkipDir // those of other workers are many
	})
	return found
}
