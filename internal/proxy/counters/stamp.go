package counters

import (
	"time"
)

// Epoch is what stamps count from: before anything of this process was.
var Epoch = time.Now().Add(-time.Hour)

// Stamp is a moment of this process as a number for an atomic, by the monotonic clock:
// setting the machine's clock changes no age. 0 stands for never.
func Stamp(t time.Time) int64 {
	if s := int64(t.Sub(Epoch)); s != 0 {
		return s
	}
	return 1
}

// Stamped is the moment of a stamp.
func Stamped(s int64) time.Time { return Epoch.Add(time.Duration(s)) }
