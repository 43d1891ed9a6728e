package proxy

import (
	"net/http"
	"sync/atomic"
	"time"
)

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

// dates are what the header Date says, which is written once a second.
var dates dateCache

type dateCache struct{ last atomic.Pointer[datedSecond] }

type datedSecond struct {
	second int64
	values []string // nobody changes it
}

func (c *dateCache) now() []string {
	now := time.Now()
	d := c.last.Load()
	if d == nil || d.second != now.Unix() {
		d = &datedSecond{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		c.last.Store(d)
	}
	return d.values
}
