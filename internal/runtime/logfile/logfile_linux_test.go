package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid" // state-machine tests that shrink to the shortest failing sequence
)

// small makes rotations frequent: a segment is two blocks.
var small = Options{MaxLive: 2 * blockSize, Segments: 3}

func noHoles(*os.File, int64) error { return fmt.Errorf("test: %w", errors.ErrUnsupported) }

// fataler is a test of package testing or of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func appendTo(t fataler, dir string, p []byte) {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func rotate(t testing.TB, dir string, o Options) bool {
	t.Helper()
	changed, err := Rotate(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// readAll follows the log from offset to its end.
func readAll(t testing.TB, dir string, offset int64) (data []byte, lost int64) {
	t.Helper()
	for {
		c, err := Read(dir, offset, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		lost += c.Lost
		if len(c.Data) == 0 {
			return data, lost
		}
		data, offset = append(data, c.Data...), c.Next
	}
}

func lines(from, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d of the log\n", from+i)
	}
	return b.Bytes()
}

func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	for _, offset := range []int64{0, 100, -5} {
		c, err := Read(dir, offset, 0)
		if err != nil || len(c.Data) != 0 || c.Next != 0 || c.Lost != 0 {
			t.Errorf("Read(%d) of no log = %+v, %v", offset, c, err)
		}
	}
	if rotate(t, dir, small) {
		t.Error("rotated nothing")
	}
}

func TestRotateKeepsAllAndFreesBlocks(t *testing.T) {
	dir := t.TempDir()
	want := lines(0, 1000) // about 20 kB: two segments and a rest
	appendTo(t, dir, want)
	if !rotate(t, dir, small) {
		t.Fatal("nothing archived")
	}
	got, lost := readAll(t, dir, 0)
	if lost != 0 || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, lost %d, want %d", len(got), lost, len(want))
	}
	st, err := os.Stat(filepath.Join(dir, liveName))
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() != int64(len(want)) {
		t.Errorf("live file has %d bytes, want %d: offsets must stay", st.Size(), len(want))
	}
	if a := allocated(st); a > small.MaxLive+blockSize {
		t.Errorf("live file still takes %d bytes", a)
	}
	segs, err := listSegments(dir)
	if err != nil || len(segs) != 2 {
		t.Fatalf("segments %v, %v", segs, err)
	}
	for _, s := range segs {
		b, err := os.ReadFile(s.path(dir))
		if err != nil || !bytes.HasSuffix(b, []byte("\n")) {
			t.Errorf("segment %d does not end with a line: %v", s.start, err)
		}
	}
	if rotate(t, dir, small) {
		t.Error("a second rotation found something to do")
	}
}

func TestPrunedBytesAreCounted(t *testing.T) {
	dir := t.TempDir()
	want := lines(0, 10_000)
	appendTo(t, dir, want)
	rotate(t, dir, small)
	got, lost := readAll(t, dir, 10)
	if lost == 0 || int64(len(got))+lost+10 != int64(len(want)) {
		t.Fatalf("read %d + lost %d + 10 of %d", len(got), lost, len(want))
	}
	if !bytes.Equal(got, want[len(want)-len(got):]) {
		t.Fatal("what is kept is not the end")
	}
	if kept := int64(len(got)); kept > 5*small.MaxLive || kept < 3*small.MaxLive {
		t.Errorf("kept %d bytes with %+v", kept, small)
	}
	segs, _ := listSegments(dir)
	if len(segs) != small.Segments {
		t.Errorf("%d segments kept, want %d", len(segs), small.Segments)
	}
}

func TestLastLines(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, dir, lines(0, 2000))
	rotate(t, dir, small)
	for _, tail := range []string{"", "unfinished"} {
		appendTo(t, dir, []byte(tail))
		for _, n := range []int{1, 2, 17, 300, 900} { // the last ones lie in segments
			c, err := Read(dir, int64(-n), MaxChunk)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.SplitAfter(strings.TrimSuffix(string(c.Data), "\n"), "\n")
			if len(got) != n {
				t.Fatalf("last %d lines (tail %q): got %d", n, tail, len(got))
			}
			first := 2000 - n
			if tail != "" {
				first++
			}
			if n > 1 && got[0] != fmt.Sprintf("line %d of the log\n", first) {
				t.Fatalf("last %d lines begin with %q", n, got[0])
			}
		}
	}
	if c, err := Read(dir, -1<<63, 10); err != nil || c.Lost != 0 {
		t.Errorf("very many lines: %+v, %v", c, err)
	}
}

func TestCrashBetweenCopyAndHole(t *testing.T) {
	dir := t.TempDir()
	want := lines(0, 1000)
	appendTo(t, dir, want)
	crash := small
	crash.punch = func(*os.File, int64) error { return errors.New("power is gone") }
	if _, err := Rotate(dir, crash); err == nil {
		t.Fatal("the failure was swallowed")
	}
	if got, lost := readAll(t, dir, 0); lost != 0 || !bytes.Equal(got, want) {
		t.Fatal("lines lost or doubled after the crash")
	}
	rotate(t, dir, small)
	st, _ := os.Stat(filepath.Join(dir, liveName))
	if allocated(st) > small.MaxLive+blockSize {
		t.Error("the hole was not made up for")
	}
	if got, lost := readAll(t, dir, 0); lost != 0 || !bytes.Equal(got, want) {
		t.Fatal("lines lost or doubled by the second rotation")
	}
}

// After a loss of power a segment may be empty although its hole was made.
func TestLostSegment(t *testing.T) {
	for _, how := range []string{"removed", "emptied"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			want := lines(0, 1000)
			appendTo(t, dir, want)
			rotate(t, dir, small)
			segs, _ := listSegments(dir)
			for _, s := range segs {
				var err error
				if how == "removed" {
					err = os.Remove(s.path(dir))
				} else {
					err = os.Truncate(s.path(dir), 0)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got, lost := readAll(t, dir, 0)
			if lost < small.MaxLive || lost+int64(len(got)) != int64(len(want)) || bytes.Contains(got, []byte{0}) {
				t.Fatalf("read %d, lost %d of %d", len(got), lost, len(want))
			}
			more := lines(1000, 1000)
			appendTo(t, dir, more)
			rotate(t, dir, small)
			if got, _ := readAll(t, dir, int64(len(want))); !bytes.Equal(got, more) {
				t.Fatal("what came after is damaged")
			}
		})
	}
}

func TestWithoutHoles(t *testing.T) {
	dir := t.TempDir()
	var logged bytes.Buffer
	o := small
	o.Segments = 100
	o.punch = noHoles
	o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	var want []byte
	truncated := false
	for i := range 40 {
		p := lines(i*1000, 1000)
		appendTo(t, dir, p)
		want = append(want, p...)
		rotate(t, dir, o)
		st, err := os.Stat(filepath.Join(dir, liveName))
		if err != nil {
			t.Fatal(err)
		}
		truncated = truncated || st.Size() == 0
		if max := o.withDefaults().MaxWhole + int64(len(p)); st.Size() > max {
			t.Fatalf("live file has grown to %d", st.Size())
		}
	}
	if !truncated {
		t.Fatal("never truncated: the test tests nothing")
	}
	keep, lost := readAll(t, dir, 0)
	if !bytes.Equal(keep, want[lost:]) {
		t.Fatalf("read %d, lost %d of %d", len(keep), lost, len(want))
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, logged.String())
	}
}

// A shell's "> /dev/stderr" truncates the file that stderr is.
func TestTruncatedByItsWriter(t *testing.T) {
	dir := t.TempDir()
	before := lines(0, 1000)
	appendTo(t, dir, before)
	rotate(t, dir, small)
	segs, _ := listSegments(dir)
	archived := segs[len(segs)-1].end()
	if err := os.Truncate(filepath.Join(dir, liveName), 0); err != nil {
		t.Fatal(err)
	}
	appendTo(t, dir, []byte("after\n"))
	check := func() {
		t.Helper()
		got, _ := readAll(t, dir, archived)
		if string(got) != "after\n" {
			t.Fatalf("read %q behind the archived part", got)
		}
	}
	check()
	rotate(t, dir, small)
	check()
	// Grown past the old size the offsets are still right: the base was noted.
	more := lines(1, 700)
	appendTo(t, dir, more)
	got, lost := readAll(t, dir, archived)
	if lost != 0 || !bytes.Equal(got, append([]byte("after\n"), more...)) {
		t.Fatalf("read %d bytes, lost %d", len(got), lost)
	}
}

func TestSecondRotationStandsBack(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, dir, lines(0, 1000))
	unlock, ok, err := lock(dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if rotate(t, dir, small) {
		t.Error("rotated under another's lock")
	}
	unlock()
	if !rotate(t, dir, small) {
		t.Error("not rotated after the lock was free")
	}
}

// Every line exactly once, in order, for readers that follow while a writer
// writes and the rotator rotates.
func TestConcurrentWriterReaderRotator(t *testing.T) {
	dir := t.TempDir()
	o := Options{MaxLive: 4 * blockSize, Segments: 10_000}
	const n = 30_000
	var done atomic.Bool
	errs := make(chan error, 2)
	go func() {
		f, err := Open(dir)
		for i := 0; i < n && err == nil; i++ {
			_, err = fmt.Fprintf(f, "%d\n", i)
		}
		if err == nil {
			err = f.Close()
		}
		done.Store(true)
		errs <- err
	}()
	go func() {
		for !done.Load() {
			if _, err := Rotate(dir, o); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	var got []byte
	var offset int64
	for {
		last := done.Load()
		c, err := Read(dir, offset, 3000)
		if err != nil {
			t.Fatal(err)
		}
		if c.Lost != 0 {
			t.Fatalf("lost %d at %d", c.Lost, offset)
		}
		got, offset = append(got, c.Data...), c.Next
		if last && len(c.Data) == 0 {
			break
		}
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		want := fmt.Appendf(nil, "%d\n", i)
		if !bytes.HasPrefix(got, want) {
			t.Fatalf("line %d: found %.20q", i, got)
		}
		got = got[len(want):]
	}
	if segs, _ := listSegments(dir); len(segs) < 5 {
		t.Errorf("only %d segments: the test tests nothing", len(segs))
	}
}

// A reader that looked before a rotation and reads after it must notice, be it
// that it reads the hole or that it takes the hole for a loss.
func TestOvertakenReader(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, dir, lines(0, 1000))
	before, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	rotate(t, dir, small)
	v := newView(dir, before, Range{To: math.MaxInt64})
	defer v.close()
	data, err := v.readFrom(0, 100)
	if err != nil || !bytes.Equal(data, make([]byte, 100)) {
		t.Fatalf("expected to read the hole, got %q, %v", data, err)
	}
	if err := v.check(); !errors.Is(err, errOvertaken) {
		t.Fatalf("not noticed: %v", err)
	}
}

// TestOffsets compares with a log that is kept in memory whole.
func TestOffsets(t *testing.T) {
	rapid.Check(t, offsetsProperty)
}

// FuzzOffsets is TestOffsets driven by the fuzzer's coverage.
func FuzzOffsets(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(offsetsProperty))
}

func offsetsProperty(rt *rapid.T) {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var logged []byte
	o := Options{
		MaxLive:  rapid.Int64Range(1, 4*blockSize).Draw(rt, "max live"),
		Segments: rapid.IntRange(1, 5).Draw(rt, "segments"),
	}
	crash := o
	crash.punch = func(*os.File, int64) error { return errors.New("crash") }
	whole := o
	whole.punch = noHoles
	whole.MaxWhole = o.MaxLive * 2
	rt.Repeat(map[string]func(*rapid.T){
		"append": func(rt *rapid.T) {
			n := rapid.IntRange(0, 4*blockSize).Draw(rt, "length")
			every := rapid.IntRange(1, 5000).Draw(rt, "line length")
			p := make([]byte, n)
			for i := range p {
				p[i] = 'a' + byte((len(logged)+i)%23)
				if (len(logged)+i)%every == 0 {
					p[i] = '\n'
				}
			}
			logged = append(logged, p...)
			appendTo(rt, dir, p)
		},
		"rotate": func(rt *rapid.T) {
			how := rapid.SampledFrom([]Options{o, o, crash, whole}).Draw(rt, "how")
			if _, err := Rotate(dir, how); err != nil && err.Error() != "rotate log: free archived blocks: crash" {
				rt.Fatal(err)
			}
		},
		"read": func(rt *rapid.T) {
			offset := rapid.Int64Range(0, int64(len(logged))+10).Draw(rt, "offset")
			limit := rapid.IntRange(1, 8*blockSize).Draw(rt, "limit")
			c, err := Read(dir, offset, limit)
			if err != nil {
				rt.Fatal(err)
			}
			from := min(offset+c.Lost, int64(len(logged)))
			if c.Next != from+int64(len(c.Data)) || c.Next > int64(len(logged)) || len(c.Data) > limit {
				rt.Fatalf("at %d of %d: next %d, lost %d, %d bytes", offset, len(logged), c.Next, c.Lost, len(c.Data))
			}
			if !bytes.Equal(c.Data, logged[from:c.Next]) {
				rt.Fatalf("wrong bytes at %d (lost %d)", offset, c.Lost)
			}
			if len(c.Data) == 0 && c.Next != int64(len(logged)) {
				rt.Fatalf("no data at %d although the end is %d", c.Next, len(logged))
			}
		},
		"last lines": func(rt *rapid.T) {
			n := rapid.IntRange(1, 50).Draw(rt, "lines")
			c, err := Read(dir, int64(-n), 1)
			if err != nil {
				rt.Fatal(err)
			}
			from := c.Next - int64(len(c.Data))
			tail := bytes.TrimSuffix(logged[from:], []byte("\n"))
			got := bytes.Count(tail, []byte("\n")) + 1
			kept, _ := Read(dir, 0, 1)
			if len(logged) > 0 && got != n && !(got < n && from == kept.Lost) {
				rt.Fatalf("%d lines, asked for %d", got, n)
			}
			if got == n && from > 0 && logged[from-1] != '\n' && from != kept.Lost {
				rt.Fatal("begins within a line")
			}
		},
	})
}
