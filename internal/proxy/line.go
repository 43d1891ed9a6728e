package proxy

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// How wide the line to another worker is, is learnt from the large bodies that cross it
// anyway, for each direction; nobody sends anything to find out. What shows it is the time
// that a body took to arrive, at the end where it arrives, and only if that end waited for
// the line most of that time, and not for a client, an instance or a place: then it is a
// sample. Else it is no more than a lower bound. A line of which nothing is known counts
// as one that costs no time, so that it is tried.
const (
	// largeBody is from how many bytes on a body is a sample: less fits into buffers.
	// A lower bound takes more, as a part may have waited in buffers for its reader.
	largeBody, boundBody = 64 << 10, 256 << 10
	// lineAge is when an estimate is forgotten that no body has confirmed: by then the
	// line is to be tried again.
	lineAge = 5 * time.Minute
	// Weights of a body that was faster than expected, and of one that was slower: what
	// the line has carried it can carry, what it has not it may have shared.
	lineFaster, lineSlower = 0.5, 0.25
	// maxLines bounds the workers of which something is remembered.
	maxLines = 4096
	// sentMoment is how long the end of a body is waited for here which has arrived there.
	sentMoment = 100 * time.Millisecond
)

// rate is an estimate of one direction of a line.
type rate struct {
	bps float64   // bytes per second; 0: not known
	at  time.Time // of the newest body
}

// known is the estimate at now, 0 where it is too old.
func (x rate) known(now time.Time) float64 {
	if now.Sub(x.at) >= lineAge {
		return 0
	}
	return x.bps
}

// saw adds a body. Held: the line has held it up, and nothing else.
func (x rate) saw(now time.Time, bps float64, held bool) rate {
	x.bps = x.known(now)
	switch {
	case x.bps == 0 && held:
		x.bps = bps
	case x.bps == 0: // a lower bound of nothing
		return x
	case bps > x.bps:
		x.bps += lineFaster * (bps - x.bps)
	case held:
		x.bps += lineSlower * (bps - x.bps)
	default:
		return x // it says nothing
	}
	x.at = now
	return x
}

// width of the line to another worker, there and back.
type width struct {
	worker      Worker
	there, back rate
}

// newest is when the newest body has crossed it.
func (l *width) newest() time.Time {
	if l.there.at.After(l.back.at) {
		return l.there.at
	}
	return l.back.at
}

// lines are those to other workers, by data address.
type lines struct {
	mu sync.Mutex // guards below
	by map[string]width
}

// crossed learns from a body that has crossed the line to the worker of an endpoint,
// there or back, at so many bytes per second.
func (r *Router) crossed(e *endpoint, back bool, bytes int64, bps float64, held bool) {
	if e.local || e.Address == "" || bytes < largeBody || !held && bytes < boundBody || !(bps > 0 && bps <= math.MaxFloat64) {
		return
	}
	now := time.Now()
	r.lines.mu.Lock()
	l, had := r.lines.by[e.Address]
	if l.worker = (Worker{Cluster: e.Cluster, Name: e.Worker, Address: e.Address}); back {
		l.back = l.back.saw(now, bps, held)
	} else {
		l.there = l.there.saw(now, bps, held)
	}
	if news := l.newest().Equal(now); !news || !had && !r.lines.roomLocked(now) {
		r.lines.mu.Unlock()
		return
	}
	r.lines.by[e.Address] = l
	r.lines.mu.Unlock()
	for _, x := range r.table.Load().byAddress[e.Address] {
		x.service.lined(x, l, now)
	}
}

// roomLocked makes room for one more; false where there is none.
func (x *lines) roomLocked(now time.Time) bool {
	if x.by == nil {
		x.by = map[string]width{}
	}
	if len(x.by) < maxLines {
		return true
	}
	for at, l := range x.by {
		if now.Sub(l.newest()) >= lineAge {
			delete(x.by, at)
		}
	}
	return len(x.by) < maxLines
}

// known are the lines of which something is known at now, one for each worker.
func (x *lines) known(now time.Time) []LineStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Values(x.by))
	slices.SortFunc(all, func(a, b width) int {
		return cmp.Or(cmp.Compare(a.worker.Cluster, b.worker.Cluster), cmp.Compare(a.worker.Name, b.worker.Name), b.newest().Compare(a.newest()))
	})
	var out []LineStats
	for _, l := range all {
		st := LineStats{l.worker, l.there.known(now), l.back.known(now)}
		if n := len(out); n > 0 && out[n-1].Cluster == st.Cluster && out[n-1].Name == st.Name {
			continue // the address that it had before
		}
		if st.There > 0 || st.Back > 0 {
			out = append(out, st)
		}
	}
	return out
}

// fill tells an endpoint what is known of the line to it.
func (r *Router) fill(e *endpoint) {
	r.lines.mu.Lock()
	l, known := r.lines.by[e.Address]
	r.lines.mu.Unlock()
	if known {
		e.service.lined(e, l, time.Now())
	}
}

// lined sets what is known of the line to an endpoint.
func (s *service) lined(e *endpoint, l width, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.newest().Before(e.width.newest()) {
		return // somebody was faster
	}
	e.width = l
	s.widthLocked(e, now)
}

// widthLocked puts what is known of the line to an endpoint into its load, and notes when
// that is to be looked at again.
func (s *service) widthLocked(e *endpoint, now time.Time) {
	e.load.Bandwidth, e.load.Back = e.width.there.known(now), e.width.back.known(now)
	s.loadedLocked(e)
	for _, x := range [...]rate{e.width.there, e.width.back} {
		if until := x.at.Add(lineAge); x.known(now) > 0 && (s.lineUntil.IsZero() || until.Before(s.lineUntil)) {
			s.lineUntil = until
		}
	}
}

// agedLocked forgets estimates that are too old. It looks only when one may be.
func (s *service) agedLocked(now time.Time) {
	if s.lineUntil.IsZero() || now.Before(s.lineUntil) {
		return
	}
	s.lineUntil = time.Time{}
	for _, e := range s.endpoints {
		s.widthLocked(e, now)
	}
}

// sizes are the means of what requests of a service bring and of what they are answered
// with, in bytes.
type sizes struct{ body, answer mean }

// mean of the newest numbers: an older one counts less by sizeGain for each newer one.
type mean struct {
	n, value float64
}

const sizeGain = 0.05

func (m *mean) add(v int64) {
	if v < 0 {
		return
	}
	m.n = min(m.n+1, 1/sizeGain)
	m.value += (float64(v) - m.value) / m.n
}

// expect is what a request will move there and back: its body (below 0: it does not say,
// and counts as the mean) and the mean answer.
func (z *sizes) expect(body int64) (there, back int64) {
	if body < 0 {
		body = int64(z.body.value)
	}
	return body, int64(z.answer.value)
}

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
	if up.Bytes >= largeBody && up.Took > 0 {
		r.Set(hopRate, float64(up.Bytes)/up.Took.Seconds())
	}
}

// uploaded learns from a body that has arrived at the worker of the endpoint, as its
// router says; by is how long the client was waited for meanwhile.
func (c *call) uploaded(h hop, bytes int64, by time.Duration) {
	if h.bps > 0 {
		took := time.Duration(min(float64(bytes)/h.bps, 1e9) * float64(time.Second))
		c.r.crossed(c.endpoint, false, bytes, h.bps, h.waited >= took/2 && by <= took/4)
	}
}

// downloaded learns from the answer before on a connection to the worker of an endpoint.
func (r *Router) downloaded(e *endpoint, h hop, last http1.Flow) {
	if last.Took > 0 {
		held := h.made >= 0 && h.made <= last.Took/2 && last.Waited >= last.Took/2
		r.crossed(e, true, last.Bytes, float64(last.Bytes)/last.Took.Seconds(), held)
	}
}
