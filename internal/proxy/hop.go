package proxy

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// What one router tells the other in a load report of this request or the one before
// alone; nobody else is told.
const (
	hopPrefix = "hop_"
	// How long the body of this request was waited for there, in ms.
	hopWaited = hopPrefix + "body_ms"
	// At which rate it arrived, in bytes per second, from its head to its end.
	hopRate = hopPrefix + "body_bps"
	// How long the instance was waited for with the body of the answer before, of the same
	// connection, in ms.
	hopMade = hopPrefix + "answer_ms"
)

// hop is that.
type hop struct {
	waited time.Duration
	bps    float64
	made   time.Duration // below 0: it does not say
}

// takeHop takes it out of a report.
func takeHop(r *orca.Report) (h hop) {
	h.made = -1
	for i := 0; i < len(r.Named()); {
		m := r.Named()[i]
		if !strings.HasPrefix(m.Name, hopPrefix) {
			i++
			continue
		}
		switch d := time.Duration(min(m.Value, 1e9) * 1e6); m.Name {
		case hopWaited:
			h.waited = d
		case hopRate:
			h.bps = m.Value
		case hopMade:
			h.made = d
		}
		r.Drop(m.Name)
	}
	return h
}

// tellHop puts into a report how the body of a request came.
func tellHop(r *orca.Report, up http1.Flow) {
	if up.Waited >= time.Millisecond {
		r.Set(hopWaited, float64(up.Waited)/1e6)
	}
	if up.Bytes >= route.LargeBody && up.Took > 0 {
		r.Set(hopRate, float64(up.Bytes)/up.Took.Seconds())
	}
}

// uploaded learns from a body that has arrived at the worker of the endpoint, as its
// router says; by is how long the client was waited for meanwhile.
func (c *call) uploaded(h hop, bytes int64, by time.Duration) {
	if c.waited = h.waited; bytes < route.LargeBody {
		// It teaches nothing of the line: its way is part of what requests take there.
		c.waited = min(h.waited, by)
	}
	if h.bps > 0 {
		took := time.Duration(min(float64(bytes)/h.bps, 1e9) * float64(time.Second))
		c.r.crossed(c.endpoint, false, bytes, h.bps, h.waited >= took/2 && by <= took/4)
		c.endTrial()
	}
}

// downloaded learns from the answer before on a connection to the worker of the endpoint.
func (c *call) downloaded(h hop, last http1.Flow) {
	if last.Took > 0 {
		held := h.made >= 0 && h.made <= last.Took/2 && last.Waited >= last.Took/2
		c.r.crossed(c.endpoint, true, last.Bytes, float64(last.Bytes)/last.Took.Seconds(), held)
	}
}
