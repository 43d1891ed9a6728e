package runtimetest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime/logfile"
)

func testOutputOrder(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	sp := shell(s.spec(t, ""), "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
	for range 2 { // a second attempt goes on in the same log
		task := start(t, d, sp)
		wait(t, task)
		sp.Attempt++
	}
	once := "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
	got := output(t, sp)
	if s.contained() { // the order is kept within each of its outputs
		for _, of := range []string{"out", "err"} {
			var lines []string
			for line := range strings.Lines(got) {
				if strings.HasPrefix(line, of) {
					lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, of)))
				}
			}
			if !slices.Equal(lines, []string{"1", "2", "3", "1", "2", "3"}) {
				t.Errorf("log of %s: %q", of, lines)
			}
		}
		return
	}
	if got != once+once {
		t.Errorf("log:\n%s", got)
	}
}

// testOutputEnds: what goes to one of the outputs is kept although the other one
// was closed before.
func testOutputEnds(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	for i, script := range []string{
		"echo out; exec >&-; sleep 0.3; echo err >&2",
		"echo err >&2; exec 2>&-; sleep 0.3; echo out",
	} {
		sp := shell(s.spec(t, strconv.Itoa(i)), script)
		if e := wait(t, start(t, d, sp)); e.Code != 0 {
			t.Errorf("%q: %+v", script, e)
		}
		got := strings.Fields(output(t, sp))
		slices.Sort(got)
		if !slices.Equal(got, []string{"err", "out"}) {
			t.Errorf("%q: the log has %q", script, got)
		}
	}
}

// testRotation: each of very many lines exactly once and in order, although the log is
// rotated while it is written and read.
func testRotation(t *testing.T, s Suite) {
	const n = 2_000_000 // 15 MB: several segments, and less than a log may have
	d := s.driver(t, t.TempDir())
	sp := s.spec(t, "lines "+strconv.Itoa(n))
	task := start(t, d, sp)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if e, err := task.Wait(t.Context()); err != nil || e.Code != 0 {
			t.Errorf("writer: %+v, %v", e, err)
		}
	}()
	var got strings.Builder
	var offset int64
	for done := false; ; {
		select {
		case <-ended:
			done = true
		default:
		}
		c, err := logfile.Read(sp.LogDir, offset, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if c.Lost != 0 {
			t.Fatalf("%d bytes lost at %d", c.Lost, offset)
		}
		got.Write(c.Data)
		offset = c.Next
		if done && len(c.Data) == 0 {
			break
		}
	}
	if segments, err := filepath.Glob(sp.LogDir + "/output.log.*"); err != nil || len(segments) < 3 {
		t.Errorf("only segments %v, %v: the test tests nothing", segments, err)
	}
	checkLines(t, got.String(), n)
	checkLines(t, output(t, sp), n) // and once more from the segments
}

// testFlood: a program that never stops writing takes no more of the disk than a log may
// have, at no moment, whether an engine is there or not, and goes on writing for the next.
func testFlood(t *testing.T, s Suite) {
	base := t.TempDir()
	sp := s.spec(t, "flood")
	bounded := func() {
		t.Helper()
		var size int64
		err := filepath.WalkDir(sp.LogDir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a segment that went
			}
			size += st.Size()
			return err
		})
		// Besides the log there are notes of some hundred bytes.
		if most := int64(logfile.MaxSize + 4<<10); err != nil || size > most {
			t.Fatalf("the log has %d bytes, at most %d; %v", size, most, err)
		}
	}
	end := func() int64 {
		bounded()
		n, err := logfile.End(sp.LogDir)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cmd, h := fakeEngine(t, engineOrder{Suite: s.Name, Base: base, Spec: sp})
	eventually(t, "more is written than is kept", func() bool { return end() > logfile.MaxSize*3/2 })
	killEngine(t, cmd)
	bounded()

	d := s.driver(t, base)
	before := end()
	task, err := d.Adopt(t.Context(), sp, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleanup(t, task) })
	eventually(t, "it writes on", func() bool { return end() > before+logfile.MaxSize*3/2 })
	kill(t, task)
	wait(t, task)
	bounded()
}

func checkLines(t *testing.T, log string, n int) {
	t.Helper()
	i := 0
	for line := range strings.Lines(log) {
		if line != strconv.Itoa(i)+"\n" {
			t.Fatalf("line %d is %.40q", i, line)
		}
		i++
	}
	if i != n {
		t.Fatalf("%d lines, want %d", i, n)
	}
}
