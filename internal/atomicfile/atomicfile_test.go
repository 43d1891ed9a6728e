package atomicfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWriteReplacesContentAndPermissions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, []byte("a longer old content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadBounded(path, 3)
	if err != nil || string(got) != "new" {
		t.Fatalf("read %q, %v; want \"new\"", got, err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want 0600", fi.Mode().Perm())
	}
}

func TestWriteFailureKeepsOldStateAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A folder in the file's place makes the rename fail.
	path := filepath.Join(dir, "state")
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := Write(path, []byte("x"), 0o600)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("error %v, want one that names %s", err, path)
	}
	if again := Write(path, []byte("x"), 0o600); again == nil || again.Error() != err.Error() {
		t.Errorf("the same failure reads %q, then %q", err, again)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 {
		t.Errorf("folder holds %v, want only the old entry", names)
	}
	if err := Write(filepath.Join(dir, "absent", "state"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: error %v, want os.ErrNotExist", err)
	}
}

func TestReadersNeverSeeAPart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	a, b := bytes.Repeat([]byte("a"), 64<<10), bytes.Repeat([]byte("b"), 32<<10)
	if err := Write(path, a, 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 20 {
			data := a
			if i%2 == 0 {
				data = b
			}
			if err := Write(path, data, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		got, err := ReadBounded(path, 1<<20)
		if err != nil {
			t.Error(err)
			break
		}
		if !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Errorf("read a mixture of %d bytes", len(got))
			break
		}
	}
	wg.Wait()
}

func TestReadBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadBounded(path, 5); err != nil || string(got) != "12345" {
		t.Errorf("exact size: %q, %v", got, err)
	}
	if _, err := ReadBounded(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("larger file: error %v, want ErrTooLarge", err)
	}
	if _, err := ReadBounded(path+"x", 4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: error %v, want os.ErrNotExist", err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	for _, text := range []string{"old", "new"} {
		if err := Replace(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadBounded(path, 3); err != nil || string(got) != text {
			t.Fatalf("read %q, %v; want %q", got, err, text)
		}
	}
	if err := Replace(filepath.Join(dir, "none", "state"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}
