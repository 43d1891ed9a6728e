package proxy

import "time"

// epoch is what stamps count from: before anything of this process was.
var epoch = time.Now().Add(-time.Hour)

// stamp is a moment of this process as a number for an atomic, by the monotonic clock:
// setting the machine's clock changes no age. 0 stands for never.
func stamp(t time.Time) int64 {
	if s := int64(t.Sub(epoch)); s != 0 {
		return s
	}
	return 1
}

// stamped is the moment of a stamp.
func stamped(s int64) time.Time { return epoch.Add(time.Duration(s)) }
