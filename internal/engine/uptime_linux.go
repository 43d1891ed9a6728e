package engine

import (
	"time"

	"golang.org/x/sys/unix" // the clock since the boot, which package time does not show
)

// uptime is how long ago the machine booted, time asleep included.
func uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
