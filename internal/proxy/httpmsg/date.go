package httpmsg

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Dates are what the header Date says, which is written once a second.
var Dates dateCache

type dateCache struct{ last atomic.Pointer[datedSecond] }

type datedSecond struct {
	second int64
	values []string // nobody changes it
}

func (c *dateCache) Now() []string {
	now := time.Now()
	d := c.last.Load()
	if d == nil || d.second != now.Unix() {
		d = &datedSecond{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
		c.last.Store(d)
	}
	return d.values
}
