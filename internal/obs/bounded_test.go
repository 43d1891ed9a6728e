package obs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A log does not grow beyond its bound while the process runs, loses nothing of the
// last part, and what is written beside the writer is in it too.
func TestBoundedLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "engine.log")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	stderr, stdout := open(), open()
	if _, err := stderr.WriteString("from before\n"); err != nil {
		t.Fatal(err)
	}
	const most = 10_000
	w, err := Bound(path, most, stderr, stdout)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 500 {
				if _, err := fmt.Fprintf(w, "line %d of %d, which is as long as a line of a log\n", n, g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n := range 150 {
		if _, err := fmt.Fprintf(w, "line %d at last, which is as long as a line of a log\n", n); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*os.File{stderr, stdout} {
		if _, err := f.WriteString("panic: beside it\n"); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if len(now) > most+100 || len(before) > most || len(before) < most-100 {
		t.Errorf("%d and %d bytes, at most %d", len(now), len(before), most)
	}
	if bytes.Count(now, []byte("panic: beside it\n")) != 2 {
		t.Errorf("what was written beside it is not there:\n%s", now)
	}
	both := slices.Concat(before, now)
	for n := range 150 {
		if !bytes.Contains(both, []byte(fmt.Sprintf("line %d at last", n))) {
			t.Errorf("line %d is lost", n)
		}
	}
	for line := range strings.Lines(string(now)) {
		if !strings.HasPrefix(line, "line ") && !strings.HasPrefix(line, "panic: ") {
			t.Errorf("torn: %q", line)
		}
	}
}

// Only a log that is that file is bounded; what is no file, or another, is left.
func TestOnlyTheOwnLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engine.log")
	other, err := os.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if w, err := Bound(path, 10, other); err != nil || w != other {
		t.Errorf("without a file: %v, %v", w, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := Bound(path, 10, other); err != nil || w != other {
		t.Errorf("another file: %v, %v", w, err)
	}
	var text bytes.Buffer
	if w, err := Bound(path, 10, &text); err != nil || w != &text {
		t.Errorf("no file: %v, %v", w, err)
	}
}

// A log that cannot be set aside begins again rather than fill the disk.
func TestBoundedLogThatCannotTurn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "engine.log")
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w, err := Bound(path, 100, f)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		if _, err := fmt.Fprintf(w, "line %d\n", n); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || len(b) > 100 || !bytes.Contains(b, []byte("line 49\n")) {
		t.Errorf("%q, %v", b, err)
	}
}
