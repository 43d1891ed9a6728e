package powertest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/powertest"
)

// What was synced is there after a power cut, and nothing else is.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d := powertest.New(t, dir)
	at := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Mkdir(at("kept"), 0o700))
	check(atomicfile.SyncDir(dir))
	check(atomicfile.Write(at("kept/whole"), []byte("old"), 0o600))
	check(atomicfile.Write(at("kept/whole"), []byte("whole"), 0o600))
	check(os.WriteFile(at("kept/unwritten"), []byte("lost"), 0o600)) // named, but not synced
	check(atomicfile.SyncDir(at("kept")))
	f, err := os.OpenFile(at("kept/unnamed"), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600) // synced, but not named
	check(err)
	_, err = f.WriteString("lost")
	check(err)
	check(f.Close())
	check(os.Rename(at("kept/whole"), at("kept/moved")))
	if f, err = os.OpenFile(at("kept/moved"), os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		_, err = f.WriteString(" and a tail that is lost")
	}
	check(err)
	check(f.Close())
	check(os.MkdirAll(at("lost/below"), 0o700))
	check(atomicfile.Write(at("lost/below/file"), []byte("in a directory that is lost"), 0o600))
	if b, err := os.ReadFile(at("kept/moved")); err != nil || string(b) != "whole and a tail that is lost" {
		t.Errorf("before the cut: %q, %v", b, err)
	}
	if got := d.Unsynced(""); !slices.Contains(got, "kept/unnamed (its name)") ||
		!slices.Contains(got, "lost (its name)") || !slices.Contains(got, "kept/unwritten (0 of 4 bytes)") {
		t.Errorf("unsynced are %q", got)
	}
	d.Cut()
	if err := os.WriteFile(at("kept/late"), nil, 0o600); err == nil {
		t.Error("something was written without power")
	}
	d.Return(t)
	for name, want := range map[string]string{"kept/whole": "whole", "kept/unwritten": ""} {
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != want {
			t.Errorf("after the cut %s is %q, %v, want %q", name, b, err, want)
		}
	}
	for _, name := range []string{"kept/unnamed", "kept/moved", "lost", "kept/late"} {
		if _, err := os.Lstat(at(name)); !os.IsNotExist(err) {
			t.Errorf("after the cut there is %s: %v", name, err)
		}
	}
	if got := d.Unsynced(""); len(got) > 0 {
		t.Errorf("after the cut %q are not synced", got)
	}
}

// The program itself has no FUSE.
func TestTheProgramLinksNoneOfIt(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"github.com/verge-edge/verge/cmd/verge").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		if strings.Contains(pkg, "go-fuse") || strings.Contains(pkg, "powertest") {
			t.Errorf("it links %s", pkg)
		}
	}
}
