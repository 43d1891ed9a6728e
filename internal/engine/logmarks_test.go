package engine

import (
	"context"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

func TestLogMarks(t *testing.T) {
	dir, begin := t.TempDir(), time.Unix(1000, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	var m logMarks
	write := func(text string) { appendLog(t, dir, text) }
	m.look("a", dir, at(0)) // there is no log yet
	write("0123456789")
	m.look("a", dir, at(5))
	m.look("a", dir, at(10)) // nothing new
	write("x")
	m.look("a", dir, at(15))
	for s, want := range map[int]int64{0: 0, 4: 0, 5: 10, 9: 10, 14: 10, 15: 11, 99: 11} {
		if got := m.before("a", at(s)); got != want {
			t.Errorf("before %d s: %d, want %d", s, got, want)
		}
	}
	if m.before("b", at(99)) != 0 {
		t.Error("an offset in a log that nobody has looked at")
	}
	// However often it grows, little is remembered, the latest best, and never more
	// is left out than was written before.
	for s := 20; s < 2000; s++ {
		write("y")
		m.look("a", dir, at(s))
	}
	if n := len(m.of["a"].marks); n > maxMarks {
		t.Errorf("%d marks", n)
	}
	for s := 20; s < 2000; s++ {
		got, most := m.before("a", at(s)), int64(11+s-19)
		if got > most || s > 1970 && got != most {
			t.Fatalf("before %d s: %d of %d", s, got, most)
		}
	}
	m.forget("a")
	if m.before("a", at(3000)) != 0 || len(m.of) != 0 {
		t.Error("it was not forgotten")
	}
}

// What was written since: at least that, also with a number of lines; and all, if
// the engine was not there then.
func TestLogsSince(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		dir := state.At(r.dir, web0).Log()
		want := func(q wire.LogAsk, want string) {
			t.Helper()
			if c, err := r.e.Logs(context.Background(), web0, q); err != nil || string(c.Data) != want {
				t.Errorf("%+v: %q, %v, want %q", q, c.Data, err, want)
			}
		}
		appendLog(t, dir, "long ago\n")
		after(time.Hour)
		appendLog(t, dir, "one\ntwo\n")
		want(wire.LogAsk{Since: time.Minute}, "one\ntwo\n")
		after(10 * time.Minute)
		appendLog(t, dir, "three\n")
		want(wire.LogAsk{Since: 30 * time.Minute}, "one\ntwo\nthree\n")
		want(wire.LogAsk{Since: 30 * time.Minute, Offset: -2}, "two\nthree\n")
		want(wire.LogAsk{Since: 30 * time.Minute, Offset: -9}, "one\ntwo\nthree\n")
		want(wire.LogAsk{Since: time.Minute, Offset: -9}, "three\n")
		want(wire.LogAsk{Since: 2 * time.Hour}, "long ago\none\ntwo\nthree\n")
		after(rotateEvery)
		r.stop()
		r.start()
		after(time.Minute)
		appendLog(t, dir, "four\n")
		want(wire.LogAsk{Since: 30 * time.Second}, "four\n")
		want(wire.LogAsk{Since: 5 * time.Minute}, "long ago\none\ntwo\nthree\nfour\n")
	})
}

// appendLog writes as a program does.
func appendLog(t *testing.T, dir, text string) {
	t.Helper()
	f, err := logfile.Open(dir)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
