//go:build !linux

package placement

import "time"

var began = time.Now()

// processor is the time by the clock: the system tells no other of a thread.
func processor() time.Duration { return time.Since(began) }
