package pki

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSaneNowNeverGoesBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, clockFile)
	boot := time.Unix(100, 0)
	for i, tt := range []struct{ now, want, stored time.Time }{
		{now, now, now},  // first start
		{boot, now, now}, // the battery is empty
		{now.Add(time.Minute), now.Add(time.Minute), now},            // not written each time
		{now.Add(time.Hour), now.Add(time.Hour), now.Add(time.Hour)}, // once an hour
		{now, now.Add(time.Hour), now.Add(time.Hour)},
		{now.Add(100 * day), now.Add(100 * day), now.Add(100 * day)},
	} {
		if got := SaneNow(dir, tt.now); !got.Equal(tt.want) {
			t.Errorf("step %d: %v, want %v", i, got, tt.want)
		}
		if got := readClock(path); !got.Equal(tt.stored) {
			t.Errorf("step %d: stored %v, want %v", i, got, tt.stored)
		}
	}
	// A damaged file is as good as none, and is repaired.
	for _, text := range []string{"", "rubbish", "2026-03", string(make([]byte, 1000))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := SaneNow(dir, now); !got.Equal(now) || !readClock(path).Equal(now) {
			t.Errorf("file %q: %v", text, got)
		}
	}
	// A place that cannot be written is no reason to fail.
	if got := SaneNow(filepath.Join(path, "below-a-file"), now); !got.Equal(now) {
		t.Errorf("unwritable: %v", got)
	}
}

func TestClockGoesOnFromSaneTime(t *testing.T) {
	t.Parallel()
	start := time.Now() // with a monotonic reading, as NewClock has it
	at := start
	clock := clockFrom(start, start.Round(0).Add(48*time.Hour), func() time.Time { return at })
	if got := clock(); !got.Equal(start.Add(48 * time.Hour)) {
		t.Errorf("at start %v", got.Sub(start))
	}
	at = start.Add(time.Minute)
	if got := clock(); !got.Equal(start.Add(48*time.Hour + time.Minute)) {
		t.Errorf("after a minute %v", got.Sub(start))
	}
	at = start.Add(72 * time.Hour)
	if got := clock(); !got.Equal(start.Add(120 * time.Hour)) {
		t.Errorf("after three days %v", got.Sub(start))
	}
	// The clock on the wall was set: beyond what was reckoned, it counts. Round
	// takes the monotonic reading away, so Sub sees the step as well; the result
	// is never behind the wall.
	at = start.Round(0).Add(1000 * time.Hour)
	if got := clock(); got.Before(at) {
		t.Errorf("behind the clock: %v", got.Sub(start))
	}
	if got := NewClock(t.TempDir())(); time.Until(got).Abs() > time.Minute {
		t.Errorf("a clock without history says %v", got)
	}
}
