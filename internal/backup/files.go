package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// StoreDir is the folder of the store, and of the keys of the bus, in the data
// directory of a root and of a cluster.
const StoreDir = "bus"

// collect reads the files of a data directory that are not the store's log, in
// order of their paths: keys, certificates, registrations.
func collect(dir string) (out []File, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was there a moment ago
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if leftOut(rel + "/") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || leftOut(rel) {
			return nil
		}
		data, err := atomicfile.ReadBounded(p, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if out = append(out, File{rel, data}); len(out) > maxFiles {
			return fmt.Errorf("%s has more than %d files: it holds what does not belong there", dir, maxFiles)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, err
}

// leftOut are what another process or run has no use for: the log of the store (it
// is in the snapshot), locks, logs, and files that were never finished.
func leftOut(rel string) bool {
	name := path.Base(rel)
	switch {
	case rel == "./":
		return false
	case strings.HasPrefix(name, "."):
		return true
	case rel == StoreDir+"/jetstream/", rel == StoreDir+"/store", rel == StoreDir+"/lock", rel == ObjectsDir+"/":
		return true
	}
	return strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".log.1")
}
