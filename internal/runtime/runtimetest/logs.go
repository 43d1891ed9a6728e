package runtimetest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
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
	got := output(t, d, sp)
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
		got := strings.Fields(output(t, d, sp))
		slices.Sort(got)
		if !slices.Equal(got, []string{"err", "out"}) {
			t.Errorf("%q: the log has %q", script, got)
		}
	}
}

// testRotation: each of very many lines exactly once and in order, although the
// log is rotated all the time while it is written and read.
func testRotation(t *testing.T, s Suite) {
	const n = 60_000
	d := s.driver(t, t.TempDir())
	logs, ok := d.(runtime.Logs)
	if !ok {
		t.Skip("the driver does not keep logs")
	}
	sp := s.spec(t, "lines "+strconv.Itoa(n))
	task := start(t, d, sp)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if e, err := task.Wait(t.Context()); err != nil || e.Code != 0 {
			t.Errorf("writer: %+v, %v", e, err)
		}
	}()
	o := logfile.Options{MaxLive: 32 << 10, Segments: 1 << 20}
	rotations := 0
	var got strings.Builder
	var offset int64
	for done := false; ; {
		select {
		case <-ended:
			done = true
		default:
		}
		changed, err := logfile.Rotate(sp.LogDir, o)
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			rotations++
		}
		c, err := logs.ReadLog(sp.LogDir, offset, 50_000)
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
	if rotations < 3 {
		t.Errorf("only %d rotations: the test tests nothing", rotations)
	}
	checkLines(t, got.String(), n)
	checkLines(t, output(t, d, sp), n) // and once more from the segments
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
