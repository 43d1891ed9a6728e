package logs

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/logfile"
)

func TestLogMarks(t *testing.T) {
	dir, begin := t.TempDir(), time.Unix(1000, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	var m logMarks
	write := func(text string) { writeLog(t, dir, text) }
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

// writeLog writes as a program does.
func writeLog(t *testing.T, dir, text string) {
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
