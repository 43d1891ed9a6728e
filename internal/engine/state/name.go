package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
)

// Name is the path after which a worker names what it makes outside its data directory dir
// (wire.Mark): the absolute one. Engines up to 26 November 2026 took a relative path as it
// was given; where control groups of that name have instances of this directory, it stays
// until an engine starts without any.
func Name(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the data directory %s: %w", dir, err)
	}
	if absolute == dir {
		return dir, nil
	}
	former := []string{"/" + wire.Mark(dir)[:12] + "/", "/" + wire.Mark(dir + "#container")[:12] + "/"}
	entries, err := os.ReadDir(filepath.Join(dir, InstancesDir))
	if err != nil {
		return absolute, nil // there are none yet; else who opens it says why
	}
	for _, e := range entries {
		rec, err := ReadRecord(filepath.Join(dir, InstancesDir, e.Name()), e.Name())
		if err != nil || rec.Handle == nil {
			continue // what cannot be read is told later
		}
		for group := range strings.SplitSeq(rec.Handle.Cgroup, ":") {
			if _, err := os.Stat(group); err == nil &&
				(strings.Contains(group, former[0]) || strings.Contains(group, former[1])) {
				return dir, nil
			}
		}
	}
	return absolute, nil
}
