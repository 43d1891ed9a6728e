package call

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// What one router sends the other in a load report, about this request or the previous one;
// nobody else gets it.
const (
	hopPrefix = "hop_"
	// How long the body of this request was waited for there, in ms.
	hopWaited = hopPrefix + "body_ms"
	// At which rate it arrived, in bytes per second, from its head to its end.
	hopRate = hopPrefix + "body_bps"
	// How long the instance was waited for with the body of the answer before, of the same
	// connection, in ms.
	HopMade = hopPrefix + "answer_ms"
)

// hop is that.
type hop struct {
	Waited time.Duration
	Bps    float64
	made   time.Duration // below 0: it does not say
}

// TakeHop takes it out of a report.
func TakeHop(r *orca.Report) (h hop) {
	h.made = -1
	for i := 0; i < len(r.Named()); {
		m := r.Named()[i]
		if !strings.HasPrefix(m.Name, hopPrefix) {
			i++
			continue
		}
		switch d := time.Duration(min(m.Value, 1e9) * 1e6); m.Name {
		case hopWaited:
			h.Waited = d
		case hopRate:
			h.Bps = m.Value
		case HopMade:
			h.made = d
		}
		r.Drop(m.Name)
	}
	return h
}

// TellHop puts into a report how the body of a request came.
func TellHop(r *orca.Report, up http1.Flow) {
	if up.Waited >= time.Millisecond {
		r.Set(hopWaited, float64(up.Waited)/1e6)
	}
	if up.Bytes >= route.LargeBody && up.Took > 0 {
		r.Set(hopRate, float64(up.Bytes)/up.Took.Seconds())
	}
}

// Uploaded learns from a body that has arrived at the worker of the endpoint, as its
// router says; by is how long the client was waited for meanwhile.
func (c *Call) Uploaded(h hop, bytes int64, by time.Duration) {
	if c.Waited = h.Waited; bytes < route.LargeBody {
		// It teaches nothing of the line: its way is part of what requests take there.
		c.Waited = min(h.Waited, by)
	}
	if h.Bps > 0 {
		took := time.Duration(min(float64(bytes)/h.Bps, 1e9) * float64(time.Second))
		c.r.Crossed(c.endpoint, false, bytes, h.Bps, h.Waited >= took/2 && by <= took/4)
		c.endTrial()
	}
}

// Downloaded learns from the answer before on a connection to the worker of the endpoint.
func (c *Call) Downloaded(h hop, last http1.Flow) {
	if last.Took > 0 {
		held := h.made >= 0 && h.made <= last.Took/2 && last.Waited >= last.Took/2
		c.r.Crossed(c.endpoint, true, last.Bytes, float64(last.Bytes)/last.Took.Seconds(), held)
	}
}
