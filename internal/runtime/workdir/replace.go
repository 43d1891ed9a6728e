package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Replace puts another content in the place of the i-th file that Prepare has put
// there, while the instance runs. Who opens it finds the one before or this one, whole;
// who has it open goes on reading the one before. The owner stays. With an error the
// one before is there.
func (p Place) Replace(f File, i int) error {
	root, err := os.OpenRoot(p.Work)
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // what was written was closed
	memory, err := os.OpenRoot(p.secrets())
	if errors.Is(err, fs.ErrNotExist) {
		f.owner = ownerOf(root, f.Path)
		if err := write(root, f); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, inWords(err))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("file %s: %w", f.Path, inWords(err))
	}
	defer memory.Close() //nolint:errcheck // as above
	if err := growTmpfs(p.secrets(), int64(len(f.Content))); err != nil {
		return fmt.Errorf("file %s: %w", f.Path, err)
	}
	name := strconv.Itoa(i)
	put := File{Path: name, Content: f.Content, Mode: f.Mode, owner: ownerOf(memory, name)}
	if err := write(memory, put); err != nil {
		return fmt.Errorf("file %s: %w", f.Path, inWords(err))
	}
	target := filepath.Join(p.secrets(), name)
	if there, err := root.Readlink(f.Path); err == nil && there == target {
		return nil
	}
	if err := link(root, target, f.Path, true, p.Owner); err != nil { // the instance has removed it, or put something else there
		return fmt.Errorf("file %s: %w", f.Path, inWords(err))
	}
	return nil
}
