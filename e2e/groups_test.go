package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab"
)

// groupsOf lists the control groups of the instances of a worker's directory,
// deepest first, and after them those that held them.
func groupsOf(dir string) (instances, parents []string) {
	for _, g := range lab.Groups(dir) {
		if filepath.Base(filepath.Dir(g)) == "verge" {
			parents = append(parents, g)
		} else {
			instances = append(instances, g)
		}
	}
	slices.Reverse(instances)
	return instances, parents
}

// removeGroups removes what a killed engine could not.
func removeGroups(t *testing.T, dir string) {
	t.Helper()
	instances, parents := groupsOf(dir)
	for _, g := range append(instances, parents...) {
		// What was killed is in it until the kernel has taken it apart.
		err := await(10*time.Second, func() error {
			if err := os.Remove(g); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		})
		if err != nil {
			t.Errorf("a control group is left: %v", err)
		}
	}
}
