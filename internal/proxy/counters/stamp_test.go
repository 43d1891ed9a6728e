package counters

import (
	"testing"
	"time"
)

// Stamps are by the monotonic clock: an age is what has passed, whatever the machine's
// clock was set to.
func TestStamps(t *testing.T) {
	now := time.Now()
	if Stamp(now) <= 0 || Stamp(Epoch) == 0 || Stamp(now.Add(time.Minute))-Stamp(now) != int64(time.Minute) {
		t.Errorf("%d, %d", Stamp(now), Stamp(Epoch))
	}
	at := Stamped(Stamp(now))
	if !at.Equal(now) || now.Sub(at) != 0 {
		t.Errorf("%s became %s", now, at)
	}
	// A time without a monotonic reading prints without "m=".
	if s := at.String(); at == at.Round(0) {
		t.Errorf("%s is by the wall clock", s)
	}
}
