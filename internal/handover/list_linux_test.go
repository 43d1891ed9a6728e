package handover

import (
	"path/filepath"
	"testing"
)

// A disk without room, or a folder for temporary files that is not there, is no reason not
// to hand over.
func TestHandsOverWithoutFiles(t *testing.T) {
	lock := locked(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	var s Sockets
	if said, err := start(t, &s, lock, "works").Wait(t.Context()); err != nil || said != "here" {
		t.Fatalf("%q, %v", said, err)
	}
}
