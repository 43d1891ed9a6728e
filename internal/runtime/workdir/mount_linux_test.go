package workdir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTmpfs(t *testing.T) {
	mustMount(t)
	s := newScene(t)
	tmpfs := []Volume{{Path: "scratch", Tmpfs: 1 << 20}}
	if err := s.prepare(nil, tmpfs); err != nil {
		t.Fatal(err)
	}
	s.write("work/scratch/x", "in memory")
	var fs unix.Statfs_t
	if err := unix.Statfs(s.path("work/scratch"), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("%x, %v", fs.Type, err)
	}
	err := os.WriteFile(s.path("work/scratch/big"), bytes.Repeat([]byte("x"), 2<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than its size: %v", err)
	}
	// One that a dead engine left, and that is still in use, ends too.
	f, err := os.Open(s.path("work/scratch/x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.place.Clear(); err != nil {
		t.Fatal(err)
	}
	if left, err := mountsBelow(s.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	// It begins empty each time.
	if err := s.prepare(nil, tmpfs); err != nil {
		t.Fatal(err)
	}
	if names := s.names("work/scratch"); len(names) != 0 {
		t.Errorf("in it there is %v", names)
	}
	if err := s.prepare(nil, nil); err != nil {
		t.Fatal(err)
	}
	if names := s.names("work"); len(names) != 0 {
		t.Errorf("in the end there is %v", names)
	}
}

func TestReadOnly(t *testing.T) {
	mustMount(t)
	s := newScene(t)
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "x"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(nil, []Volume{{Path: "data", Dir: data, ReadOnly: true}, {Path: "more", Tmpfs: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	s.is("work/data/x", "text", 0o600)
	if err := os.WriteFile(s.path("work/data/x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("written to: %v", err)
	}
	// A mount that ended by another hand is no trouble, one within another neither.
	inner := filepath.Join(s.place.Mounts, "1", "inner")
	if err := mountTmpfs(inner, 4096, nil); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(filepath.Join(s.place.Mounts, "0"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.place.Clear(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(data, "x")); err != nil || string(b) != "text" {
		t.Errorf("what was mounted has %q, %v", b, err)
	}
}

func TestClearRemovesNothing(t *testing.T) {
	s := newScene(t)
	s.write("mounts and more/0/file", "not ours")
	if err := s.place.Clear(); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("%v", err)
	}
	s.is("mounts and more/0/file", "not ours", 0o600)
	if err := os.Remove(s.path("mounts and more/0/file")); err != nil {
		t.Fatal(err)
	}
}

func TestSecretFilesAreInMemory(t *testing.T) {
	mustMount(t)
	s := newScene(t)
	files := []File{{Path: "tls/key", Content: []byte("secret"), Mode: 0o400, Secret: true}, {Path: "plain", Content: []byte("text"), Mode: 0o600}}
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	s.is("work/tls/key", "secret", 0o400)
	target, err := os.Readlink(s.path("work/tls/key"))
	if err != nil || !strings.HasPrefix(target, s.place.Mounts) {
		t.Errorf("it is at %q, %v", target, err)
	}
	if err := s.place.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(s.path("work/tls/key")); err == nil {
		t.Error("it is there after its end")
	}
	// It may have been an ordinary file before.
	files[0].Secret = false
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	files[0].Secret = true
	if err := s.prepare(files, nil); err != nil {
		t.Fatal(err)
	}
	s.is("work/tls/key", "secret", 0o400)
}
