package cputime

import (
	"time"

	"golang.org/x/sys/unix" // the clock of a thread; the standard library has none
)

// Thread is the processor time of this thread.
func Thread() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
