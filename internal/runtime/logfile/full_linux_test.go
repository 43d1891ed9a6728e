package logfile

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fill makes the next segment meet a full disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	if err := os.Symlink("/dev/full", filepath.Join(dir, tempName)); err != nil {
		t.Fatal(err)
	}
}

// A log that filled the disk gives back what it does not keep, and with that
// room goes on.
func TestAFullDiskIsRelieved(t *testing.T) {
	dir := t.TempDir()
	want := lines(0, 20_000) // many times what is kept
	appendTo(t, dir, want)
	fill(t, dir)
	if !rotate(t, dir, small) {
		t.Fatal("nothing archived")
	}
	got, lost := readAll(t, dir, 0)
	if lost == 0 || lost+int64(len(got)) != int64(len(want)) || !bytes.HasSuffix(want, got) {
		t.Fatalf("read %d bytes, lost %d, want %d", len(got), lost, len(want))
	}
}

// Where the room is taken by others at once, nothing can be archived; the log
// takes no more than its bound nevertheless.
func TestADiskThatStaysFull(t *testing.T) {
	dir := t.TempDir()
	want := lines(0, 20_000)
	appendTo(t, dir, want)
	before, err := Read(dir, 0, 100)
	if err != nil || len(before.Data) != 100 {
		t.Fatalf("%+v, %v", before, err)
	}
	o := small
	punched := 0
	o.punch = func(f *os.File, n int64) error {
		punched++
		fill(t, dir)
		return punchHole(f, n)
	}
	fill(t, dir)
	if _, err := Rotate(dir, o); !errors.Is(err, syscall.ENOSPC) || punched != 1 {
		t.Fatalf("%v after %d holes", err, punched)
	}
	st, err := os.Stat(filepath.Join(dir, liveName))
	if err != nil {
		t.Fatal(err)
	}
	if a, most := allocated(st), int64(o.Segments+1)*o.MaxLive+2*blockSize; a > most {
		t.Errorf("live file still takes %d bytes, at most %d", a, most)
	}
	got, lost := readAll(t, dir, 0)
	if lost == 0 || lost+int64(len(got)) != int64(len(want)) || !bytes.HasSuffix(want, got) {
		t.Fatalf("read %d bytes, lost %d, want %d", len(got), lost, len(want))
	}
	if !rotate(t, dir, small) {
		t.Error("nothing archived after room was made")
	}
}

// A reader that began before such a hole was made does not take it for data.
func TestAHoleWithoutASegmentIsNoticed(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, dir, lines(0, 20_000))
	l, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := newView(dir, l, Range{To: math.MaxInt64})
	defer v.close()
	fill(t, dir)
	o := small
	o.punch = func(f *os.File, n int64) error {
		fill(t, dir)
		return punchHole(f, n)
	}
	if _, err := Rotate(dir, o); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := v.check(); !errors.Is(err, errOvertaken) {
		t.Errorf("check: %v", err)
	}
}
