package gcpace

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func none() uint64 { return 0 }

// A busy process with a large heap has more garbage where the machine has memory to spare, and
// no more when it rests.
func TestSpareMemory(t *testing.T) {
	t.Parallel()
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct {
		name    string
		percent int
		live    uint64
		rate    float64
		spare   uint64
		want    int
	}{
		{"at rest", 45, 600 * mb, 5 * mb, 20 * gb, 45},
		{"busy", 45, 600 * mb, 80 * mb, 20 * gb, 200},
		{"less busy than it was", 200, 600 * mb, 40 * mb, 20 * gb, 200},
		{"calm again", 200, 600 * mb, 10 * mb, 20 * gb, 45},
		{"busy, some memory to spare", 45, 600 * mb, 80 * mb, 2400 * mb, 100},
		{"busy, little memory to spare", 45, 600 * mb, 80 * mb, 600 * mb, 45},
		{"busy, and others took the memory", 200, 600 * mb, 80 * mb, 100 * mb, 45},
		{"a small heap needs none", 100, 60 * mb, 80 * mb, 20 * gb, 100},
	} {
		if got := Percent(c.percent, Load{c.live, c.rate}, 0, func() uint64 { return c.spare }); got != c.want {
			t.Errorf("%s: GOGC %d, not %d", c.name, got, c.want)
		}
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, c := range []struct {
		name    string
		percent int
		live    uint64
		rate    float64
		want    int
	}{
		{"at rest", 100, 3 * mb, 10, 100},
		{"some requests", 100, 3 * mb, 7 * mb, 100},
		{"busy, nearly nothing alive", 100, mb, 9 * mb, 800},
		{"busy, 4 MB alive", 100, 4 * mb, 9 * mb, 800},
		{"busy, 16 MB alive", 100, 16 * mb, 100 * mb, 200},
		{"busy, a large heap has room already", 100, 64 * mb, 100 * mb, 100},
		{"less busy than it was", 800, 4 * mb, 5 * mb, 800},
		{"calm again", 800, 4 * mb, 3 * mb, 100},
		{"much to keep", 100, 90 * mb, 10, 71},
		{"very much to keep", 71, 1024 * mb, 10, 45},
		{"much to keep, and busy", 71, 90 * mb, 100 * mb, 71},
		{"less to keep again", 45, 64 * mb, 10, 100},
	} {
		if got := Percent(c.percent, Load{c.live, c.rate}, Room, none); got != c.want {
			t.Errorf("%s: GOGC %d, not %d", c.name, got, c.want)
		}
	}
	for live := uint64(1); live < 1<<40; live *= 3 {
		for _, rate := range []float64{0, 1e6, 1e9, 1e15} {
			p := uint64(Percent(100, Load{live, rate}, Room, none))
			// The runtime collects at this size, stacks and globals aside.
			if goal := max(live+live*p/100, smallest*p/100); goal > max(2*live, live+Room, smallest) {
				t.Errorf("%d bytes alive, %g a second: collected at %d", live, rate, goal)
			}
		}
	}
}

// Who gets no room has none, however busy.
func TestBound(t *testing.T) {
	t.Parallel()
	for live := uint64(1); live < 1<<40; live *= 3 {
		if p := Percent(100, Load{live, 1e9}, 0, none); p > ordinary || p < least || live <= Large && p != ordinary {
			t.Errorf("%d bytes alive: GOGC %d", live, p)
		}
	}
}

func TestWorthwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to int
		want     bool
	}{{100, 100, false}, {100, 101, true}, {101, 100, true}, {800, 700, false}, {800, 500, true}, {500, 640, true}} {
		if worthwhile(c.from, c.to) != c.want {
			t.Errorf("from %d to %d", c.from, c.to)
		}
	}
}

var garbage []byte

// A process that allocates much gets room, and gives it back at the end. Not parallel: it
// is about the whole process.
func TestRun(t *testing.T) {
	t.Setenv("GOGC", "off")
	Run(t.Context()) // is told not to, and returns at once
	before := debug.SetGCPercent(ordinary)
	defer debug.SetGCPercent(before)
	unset(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx)
	}()
	read := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	for end := time.Now().Add(time.Minute); read() <= ordinary; {
		if time.Now().After(end) {
			t.Fatal("allocates and allocates, and is collected as before")
		}
		for range 1000 {
			garbage = make([]byte, 64<<10)
		}
	}
	cancel()
	<-done
	if p := read(); p != ordinary {
		t.Errorf("GOGC stays at %d", p)
	}
	runtime.KeepAlive(garbage)
}

// unset takes GOGC away, which t.Setenv has set and puts back.
func unset(t *testing.T) {
	t.Helper()
	if err := os.Unsetenv("GOGC"); err != nil {
		t.Fatal(err)
	}
}
