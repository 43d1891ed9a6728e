package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// groupsOf lists the control groups of the instances of a worker's directory,
// deepest first, and after them those that held them.
func groupsOf(dir string) (instances, parents []string) {
	sum := sha256.Sum256([]byte(dir))
	hash := hex.EncodeToString(sum[:6])
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil // groups of others come and go
		case strings.Contains(path, "/verge/"+hash+"/"):
			instances = append(instances, path)
		case strings.HasSuffix(path, "/verge/"+hash):
			parents = append(parents, path)
		}
		return nil
	})
	slices.Reverse(instances)
	return instances, parents
}

// removeGroups removes what a killed engine could not.
func removeGroups(t *testing.T, dir string) {
	t.Helper()
	instances, parents := groupsOf(dir)
	for _, g := range append(instances, parents...) {
		if err := os.Remove(g); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a control group is left: %v", err)
		}
	}
}
