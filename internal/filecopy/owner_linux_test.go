package filecopy

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is copied to an instance is its user's, in the place of what was another's.
func TestOwnerOfWhatIsCopied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: files of other users; needs root")
	}
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tree", "there"), []byte(dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(from, "tree", "sub", "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	var packed bytes.Buffer
	if _, err := Pack(t.Context(), &packed, source, "tree"); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(t.Context(), &packed, Target{Root: target, Path: "tree", Owner: &Owner{UID: 12345, GID: 23456}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree/there", "tree/sub", "tree/sub/inner"} {
		st, err := target.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if sys := st.Sys().(*syscall.Stat_t); sys.Uid != 12345 || sys.Gid != 23456 {
			t.Errorf("%s is of %d:%d", name, sys.Uid, sys.Gid)
		}
	}
	if st, err := target.Stat("tree"); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("a directory that was there before: %v, %v", st, err)
	}
}
