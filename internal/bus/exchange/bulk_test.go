package exchange

import (
	"testing"
	"testing/synctest"
	"time"
)

// What an answer may have follows what the line carries, and is found out anew after a rest.
func TestBulkFollowsTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bulk
		if got := b.most(); got != firstBulk {
			t.Errorf("at first %d", got)
		}
		for range 10 {
			b.left(b.most(), time.Millisecond)
		}
		if got := b.most(); got != mostBulk {
			t.Errorf("on a line that carries much %d", got)
		}
		const rate = 125_000 // bytes a second, 1 Mbit/s
		for range 3 {
			n := b.most() * 4 / 3
			b.left(n, time.Duration(n)*time.Second/rate)
		}
		if got, want := b.most(), rate/4*3/4; got < want*9/10 || got > want*11/10 {
			t.Errorf("on a line of 1 Mbit/s %d, want about %d", got, want)
		}
		b.left(1000, time.Minute)
		if got := b.most(); got != leastBulk {
			t.Errorf("on a line that carries next to nothing %d", got)
		}
		time.Sleep(2 * bulkRest) // of the bubble
		if got := b.most(); got != firstBulk {
			t.Errorf("after a rest %d", got)
		}
	})
}
