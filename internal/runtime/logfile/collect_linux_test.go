package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// diskOf is what the files of a log take on disk.
func diskOf(t fataler, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if name := e.Name(); name != baseName && name != startsName {
			size += st.Size()
		}
	}
	return size
}

// Whatever is written, and however often the process that writes is replaced, the log is
// never larger than its bound, and what is read is the end of what was written, whole.
func TestALogStaysWithinItsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		tiny := func() *store { return &store{dir: dir, data: 200, times: 4 * markSize, segments: 3} }
		s, now := tiny(), time.Unix(1000, 0)
		var written []byte
		var starts []int64
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if size, most := diskOf(rt, dir), int64(4*(200+4*markSize)); size > most {
					rt.Fatalf("%d bytes on disk, at most %d", size, most)
				}
				c, err := Read(dir, 0, MaxChunk)
				if err != nil || c.Next != int64(len(written)) {
					rt.Fatalf("next %d, %v, want %d", c.Next, err, len(written))
				}
				if c.Lost+int64(len(c.Data)) != int64(len(written)) || !bytes.HasSuffix(written, c.Data) {
					rt.Fatalf("%d of %d bytes, %d lost: %q", len(c.Data), len(written), c.Lost, c.Data)
				}
				if len(written) > 0 && len(c.Data) == 0 {
					rt.Fatalf("nothing of %d bytes is kept", len(written))
				}
				if len(c.Data) > 0 {
					times, err := Times(dir, Range{From: c.Lost, To: c.Next})
					if err != nil || len(times) == 0 || times[0].Offset > c.Lost {
						rt.Fatalf("times %v, %v of the bytes from %d on", times, err, c.Lost)
					}
				}
			},
			"write": func(rt *rapid.T) {
				line := rapid.IntRange(0, 90).Draw(rt, "line")
				p := bytes.Repeat([]byte(strings.Repeat("x", line)+"\n"), rapid.IntRange(1, 12).Draw(rt, "lines"))
				p = p[:max(1, len(p)-rapid.IntRange(0, 3).Draw(rt, "torn"))]
				if err := s.put(p, now); err != nil {
					rt.Fatal(err)
				}
				written = append(written, p...)
			},
			"time": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(-5, 30).Draw(rt, "ms")) * time.Millisecond)
			},
			"other process": func(*rapid.T) { s = tiny() },
			"crash between the steps of a turn": func(rt *rapid.T) {
				l, err := load(dir)
				if err != nil {
					rt.Fatal(err)
				}
				if l.size == 0 {
					rt.Skip("nothing live")
				}
				s.prune(max(0, len(l.segments)+1-s.segments))
				if err := os.Rename(Live(dir), segment{start: l.base}.path(dir)); err != nil {
					rt.Fatal(err)
				}
			},
			"start": func(rt *rapid.T) {
				if err := noteStart(dir, now); err != nil {
					rt.Fatal(err)
				}
				starts = append(starts, int64(len(written)))
				got, err := Starts(dir)
				if err != nil || len(got) != min(len(starts), maxStarts) || got[len(got)-1].Offset != int64(len(written)) {
					rt.Fatalf("starts %v, %v", got, err)
				}
			},
		})
	})
}

// write writes to the pipe of a log as a program does.
func write(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, dir string) *Collector {
	t.Helper()
	c := NewCollector(nil)
	t.Cleanup(c.Close)
	if err := c.Collect(dir); err != nil {
		t.Fatal(err)
	}
	return c
}

func wantLog(t *testing.T, dir, want string) {
	t.Helper()
	if got, _ := readAll(t, dir, 0); string(got) != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
}

// What a program writes while nobody reads is there for the next who does, and neither
// fails nor, as long as the pipe holds it, waits.
func TestOutputWaitsForItsReader(t *testing.T) {
	dir := t.TempDir()
	program, err := OpenPipe(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	first := collect(t, dir)
	write(t, program, "one\n")
	first.Drain(dir)
	wantLog(t, dir, "one\n")
	first.Close()
	if err := first.Collect(dir); err == nil {
		t.Error("a closed collector collects")
	}
	write(t, program, "two\n")
	second := collect(t, dir)
	second.Drain(dir)
	wantLog(t, dir, "one\ntwo\n")

	// Two read at once: each line is there once, and whole.
	third := collect(t, dir)
	want := "one\ntwo\n"
	for range 1000 {
		write(t, program, "more\n")
		want += "more\n"
	}
	second.Drain(dir)
	third.Drain(dir)
	if got, _ := readAll(t, dir, 0); len(got) != len(want) || strings.Count(string(got), "more\n") != 1000 {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// A pipe is read until its last writer is gone, and again for the next start.
func TestThePipeOfANextStart(t *testing.T) {
	dir := t.TempDir()
	c := NewCollector(nil)
	defer c.Close()
	want := ""
	for range 50 {
		program, err := OpenPipe(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Collect(dir); err != nil {
			t.Fatal(err)
		}
		write(t, program, "last words\n")
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		c.Drain(dir)
		want += "last words\n"
		wantLog(t, dir, want)
	}
	starts, err := Starts(dir)
	if err != nil || len(starts) != maxStarts || starts[maxStarts-1].Offset != 49*11 {
		t.Errorf("%v, %v", starts, err)
	}
}

// A program's own descriptor blocks, and its standard error can be opened anew by its path.
func TestThePipeIsAnOrdinaryOutput(t *testing.T) {
	dir := t.TempDir()
	program, err := OpenPipe(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	c := collect(t, dir)
	flags, err := unix.FcntlInt(program.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	st, err := os.Stat(Pipe(dir))
	if err != nil || st.Mode() != fs.ModeNamedPipe|pipePerm {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", program.Fd()), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	write(t, again, "to /dev/stderr\n")
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	c.Drain(dir)
	wantLog(t, dir, "to /dev/stderr\n")
}

// A disk that is full makes nobody wait: what cannot be written is counted, and told of
// when something can.
func TestAFullDiskDropsAndTells(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	now := time.Unix(1000, 0)
	if err := os.Symlink("/dev/full", Live(dir)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.put([]byte("lost\n"), now); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := os.Remove(Live(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.put([]byte("kept\n"), now); err != nil {
		t.Fatal(err)
	}
	wantLog(t, dir, "[verge: 10 bytes of output were lost here: no space left on device]\nkept\n")
}

// What an older version of the engine has kept stays readable, at its offsets, when its
// program is started again through the pipe.
func TestALogOfAnOlderVersionGoesOn(t *testing.T) {
	for name, rotated := range map[string]bool{"rotated": true, "one large file": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old := lines(0, 400_000) // more than a live file may have
			appendTo(t, dir, old)
			if rotated {
				rotate(t, dir, Options{})
				more := lines(400_000, 10)
				appendTo(t, dir, more)
				old = append(old, more...)
			}
			program, err := OpenPipe(dir)
			if err != nil {
				t.Fatal(err)
			}
			c := collect(t, dir)
			write(t, program, "of the new version\n")
			c.Drain(dir)
			if err := program.Close(); err != nil {
				t.Fatal(err)
			}
			got, lost := readAll(t, dir, 0)
			want := slices.Concat(old, []byte("of the new version\n"))
			if lost+int64(len(got)) != int64(len(want)) || !bytes.HasSuffix(want, got) {
				t.Errorf("%d bytes and %d lost of %d", len(got), lost, len(want))
			}
			if size := diskOf(t, dir); size > MaxSize {
				t.Errorf("%d bytes on disk", size)
			}
		})
	}
}

// Times: since a time is at least what was written since, and little more.
func TestTimesOfALog(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	if _, known, err := Since(dir, at(0)); known || err != nil {
		t.Errorf("known without a log, %v", err)
	}
	for _, w := range []struct {
		ms   int
		text string
	}{{0, "zero\n"}, {4, "four\n"}, {100, "hundred\n"}, {5000, "late\n"}} {
		if err := s.put([]byte(w.text), at(w.ms)); err != nil {
			t.Fatal(err)
		}
	}
	for ms, want := range map[int]int64{-1000: 0, 0: 0, 9: 0, 50: 10, 100: 10, 200: 18, 5000: 18, 6000: 23} {
		if got, known, err := Since(dir, at(ms)); got != want || !known || err != nil {
			t.Errorf("since %d ms: %d, %v, %v; want %d", ms, got, known, err, want)
		}
	}
	got, err := Times(dir, Range{From: 12, To: 18})
	if want := (rpc.LogTime{Offset: 10, At: at(100)}); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	c, err := ReadWithin(dir, Range{From: 5, To: 18}, -1, 0)
	if err != nil || string(c.Data) != "hundred\n" || c.Next != 18 {
		t.Errorf("last line of a part: %q, %+v, %v", c.Data, c, err)
	}
	c, err = ReadWithin(dir, Range{From: 5, To: 10}, 0, 0)
	if err != nil || string(c.Data) != "four\n" || c.Lost != 0 || c.Next != 10 {
		t.Errorf("a part: %q, %+v, %v", c.Data, c, err)
	}
}

// A directory may be made anew while a program of before still has its old pipe open: what the
// new one gets is read as well.
func TestThePipeOfADirectoryMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	c := NewCollector(nil)
	defer c.Close()
	for _, text := range []string{"old\n", "new\n"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		program, err := OpenPipe(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close() // the old one is open while the new one is read
		if err := c.Collect(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := program.WriteString(text); err != nil {
			t.Fatal(err)
		}
		c.Drain(dir)
		if got, err := Read(dir, 0, 0); err != nil || string(got.Data) != text {
			t.Errorf("the log has %q, %v, want %q", got.Data, err, text)
		}
	}
}

// A log that several processes write has the times of all, at their offsets: what one of them
// knows of the live file holds until another has written.
func TestTimesOfTwoWriters(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1000, 0)
	a, b := newStore(dir), newStore(dir)
	a.data, b.data = 64, 64
	var want []rpc.LogTime
	var offset int64
	for i := range 40 {
		s := a
		if i%3 > 0 {
			s = b
		}
		now = now.Add(time.Second)
		text := fmt.Sprintf("line %d\n", i)
		if err := s.put([]byte(text), now); err != nil {
			t.Fatal(err)
		}
		want = append(want, rpc.LogTime{Offset: offset, At: now})
		offset += int64(len(text))
	}
	all, err := readTimes(dir, Range{To: offset})
	if err != nil || len(all) == 0 || !slices.Equal(all, want[len(want)-len(all):]) {
		t.Errorf("%v, %v\nwant the last of %v", all, err, want)
	}
	if c, err := Read(dir, 0, 0); err != nil || c.End != offset || c.Next != offset {
		t.Errorf("%+v, %v, want the end %d", c, err, offset)
	}
	// Of a part only the files are read that have its times.
	last := want[len(want)-1]
	list, err := listTimes(dir)
	if err != nil || len(list) < 3 {
		t.Fatalf("%v, %v", list, err)
	}
	first := filepath.Join(dir, list[0].name)
	if err := errors.Join(os.Remove(first), os.Mkdir(first, 0o700)); err != nil { // which cannot be read
		t.Fatal(err)
	}
	if got, err := Times(dir, Range{From: last.Offset, To: offset}); err != nil || !slices.Equal(got, []rpc.LogTime{last}) {
		t.Errorf("%v, %v, want %v", got, err, last)
	}
}

// Who asks for times while a live file becomes a segment gets them all.
func TestTimesWhileALogIsRotated(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	s.data = 256
	s.segments = 1 << 20
	if err := s.put([]byte("line\n"), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 2; i < 3000 && err == nil; i++ {
			err = s.put([]byte("line\n"), time.Unix(int64(i), 0))
		}
		done <- err
	}()
	for looked := 0; ; looked++ {
		end, err := End(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Times(dir, Range{From: end - 5, To: end})
		if err != nil || len(got) != 1 || got[0].Offset != end-5 {
			t.Fatalf("after %d looks: the times of the last line, at %d, are %v, %v", looked, end-5, got, err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
