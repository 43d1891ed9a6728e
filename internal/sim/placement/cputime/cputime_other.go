//go:build !linux

package cputime

import "time"

var began = time.Now()

// Thread is the time by the clock: the system does not tell that of a thread.
func Thread() time.Duration { return time.Since(began) }
