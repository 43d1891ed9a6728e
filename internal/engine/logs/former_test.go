package logs

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Of the logs that are kept the oldest go first: those that are too old, too many, or too
// much.
func TestExcessOfKeptLogs(t *testing.T) {
	now := time.Unix(1e9, 0)
	logs := func(n int, size int64, age time.Duration) (out []formerLog) {
		for i := range n {
			out = append(out, formerLog{path: strconv.Itoa(i), at: now.Add(-age - time.Duration(n-i)*time.Second),
				size: size})
		}
		return out
	}
	for name, c := range map[string]struct {
		list []formerLog
		gone int
	}{
		"none":       {nil, 0},
		"some":       {logs(maxFormer, 1, 0), 0},
		"too many":   {logs(maxFormer+3, 1, 0), 3},
		"too much":   {logs(10, maxFormerBytes/4, 0), 6},
		"too old":    {logs(2, 1, KeepFor), 2},
		"of a clock": {logs(2, 1, -2*KeepFor), 2},
	} {
		gone, next := excess(c.list, now)
		if len(gone) != c.gone {
			t.Errorf("%s: %d go, want %d", name, len(gone), c.gone)
		}
		if left := len(c.list) - len(gone); left == 0 != next.IsZero() || left > 0 && next.Sub(now) > KeepFor {
			t.Errorf("%s: %d are left, the next goes at %s", name, left, next)
		}
		for i, l := range gone { // the oldest of all
			if i > 0 && l.at.After(gone[i-1].at) || len(c.list) > len(gone) &&
				l.at.After(c.list[len(c.list)-len(gone)-1].at) {
				t.Errorf("%s: %v goes too early", name, l)
			}
		}
	}
}

// The previous run is the one before the present, or the last one where none runs.
func TestPreviousRun(t *testing.T) {
	dir := t.TempDir()
	run := func(text string) {
		t.Helper()
		f, err := logfile.OpenPipe(dir)
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			err = logfile.Append(dir, []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(running bool, text string) {
		t.Helper()
		part, err := previousRun("shop.web.0", dir, running)
		var p *wire.Problem
		if text == "" {
			if !errors.As(err, &p) || p.Code != "no-previous-run" {
				t.Errorf("%v, %v, want none", part, err)
			}
			return
		}
		c, rerr := logfile.ReadWithin(dir, part, 0, 0)
		if err != nil || rerr != nil || string(c.Data) != text {
			t.Errorf("%q, %v, %v, want %q", c.Data, err, rerr, text)
		}
	}
	want(false, "")
	run("one\n")
	want(true, "")
	want(false, "one\n")
	run("two\n")
	want(true, "one\n")
	want(false, "two\n")
	run("three\n")
	want(true, "two\n")
}
