package state

import (
	"path/filepath"
	"strings"
)

// InstancesDir holds a directory for each instance, below the engine's directory.
const InstancesDir = "instances"

// Layout is where the files of an instance are: Dir is its directory.
type Layout struct{ Dir string }

// At is the layout of an instance below the directory of the engine.
func At(engineDir, id string) Layout { return Layout{Dir: filepath.Join(engineDir, InstancesDir, id)} }

// Work is its working directory.
func (p Layout) Work() string { return filepath.Join(p.Dir, "work") }

// Tmp is its temporary directory, empty before each start.
func (p Layout) Tmp() string { return filepath.Join(p.Dir, "tmp") }

// Mounts has what is mounted for it.
func (p Layout) Mounts() string { return filepath.Join(p.Dir, "mounts") }

// Log has what it writes.
func (p Layout) Log() string { return filepath.Join(p.Dir, "log") }

// RecordFile is its Record.
func (p Layout) RecordFile() string { return filepath.Join(p.Dir, RecordName) }

// Within says whether path is dir or below it; both are clean and absolute.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
