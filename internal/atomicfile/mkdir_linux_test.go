package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/powertest"
)

// A directory that was made is there after a power cut, with those on the way to it; and
// so is one that somebody else had made without a sync.
func TestMkdirAllSurvivesAPowerCut(t *testing.T) {
	mount := t.TempDir()
	disk := powertest.New(t, mount)
	made, found := filepath.Join(mount, "a", "b", "c"), filepath.Join(mount, "found")
	if err := os.Mkdir(found, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{made, found, made} {
		if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Write(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk.Return(t)
	for _, dir := range []string{made, found} {
		if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "x" {
			t.Errorf("in %s there is %q, %v", dir, b, err)
		}
	}
}
