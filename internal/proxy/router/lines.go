package router

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/data"
)

// How wide the line to another worker is, is learnt from the large bodies that cross it
// anyway; nobody sends anything to find out. route.Line has the estimates. What shows them
// is the time that a body took to arrive, at the end where it arrives, and only if that end
// waited for the line most of that time, and not for a client, an instance or a place.
const (
	// maxLines bounds the workers of which something is remembered.
	maxLines = 4096
	// SentMoment is how long the end of a body is waited for here which has arrived there.
	SentMoment = 100 * time.Millisecond
)

// width of the line to another worker.
type width struct {
	route.Line
	worker data.Worker
}

// lines are those to other workers, by data address.
type lines struct {
	mu sync.Mutex // guards below; taken with that of a service, not the other way round
	by map[string]width
}

// Crossed learns from a body that has crossed the line to the worker of an endpoint,
// there or back, at so many bytes per second.
func (r *Services) Crossed(e *Endpoint, back bool, bytes int64, bps float64, held bool) {
	if e.Local || e.Address == "" || bytes < route.LargeBody {
		return
	}
	now := time.Now()
	r.Lines.mu.Lock()
	l, had := r.Lines.by[e.Address]
	l.worker = data.Worker{Cluster: e.Cluster, Name: e.Worker, Address: e.Address}
	news := l.Crossed(now, back, bytes, bps, held) && (had || r.Lines.roomLocked(now))
	if news {
		r.Lines.by[e.Address] = l
	}
	r.Lines.mu.Unlock()
	if news {
		r.widened(e.Address, now)
	}
}

// widened tells all endpoints behind an address what is known of the line to it.
func (r *Services) widened(address string, now time.Time) {
	for _, x := range r.table.Load().byAddress[address] {
		x.service.lined(x, &r.Lines, now)
	}
}

// relined tells all endpoints what is known of the lines to them, as there may be new ones.
func (r *Services) relined() {
	r.Lines.mu.Lock()
	known := slices.Collect(maps.Keys(r.Lines.by))
	r.Lines.mu.Unlock()
	now := time.Now()
	for _, address := range known {
		r.widened(address, now)
	}
}

// Tries is route.Line.Try for a body that is about to go to an endpoint. Mine: tried is to
// be called.
func (r *Services) Tries(e *Endpoint, there, back int64) (mine bool) {
	if e.Local || e.Address == "" || max(there, back) < route.LargeBody {
		return false
	}
	now := time.Now()
	r.Lines.mu.Lock()
	l, had := r.Lines.by[e.Address]
	l.worker = data.Worker{Cluster: e.Cluster, Name: e.Worker, Address: e.Address}
	mine, news := l.Try(now, there, back)
	if news = news && (had || r.Lines.roomLocked(now)); news {
		r.Lines.by[e.Address] = l
	}
	r.Lines.mu.Unlock()
	if news {
		r.widened(e.Address, now)
	}
	return mine && news
}

// Tried ends what tries has begun.
func (r *Services) Tried(e *Endpoint) {
	r.Lines.mu.Lock()
	l := r.Lines.by[e.Address]
	l.Tried()
	r.Lines.by[e.Address] = l
	r.Lines.mu.Unlock()
	r.widened(e.Address, time.Now())
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
		if now.Sub(l.Newest()) >= route.LineAge && l.Trial.Bytes == 0 {
			delete(x.by, at)
		}
	}
	return len(x.by) < maxLines
}

// Known are the lines of which something is known at now, one for each worker.
func (x *lines) Known(now time.Time) []LineStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Values(x.by))
	slices.SortFunc(all, func(a, b width) int {
		return cmp.Or(cmp.Compare(a.worker.Cluster, b.worker.Cluster), cmp.Compare(a.worker.Name, b.worker.Name), b.Newest().Compare(a.Newest()))
	})
	var out []LineStats
	for _, l := range all {
		st := LineStats{l.worker, l.There.Known(now), l.Back.Known(now)}
		if n := len(out); n > 0 && out[n-1].Cluster == st.Cluster && out[n-1].Name == st.Name {
			continue // the address that it had before
		}
		if st.There > 0 || st.Back > 0 {
			out = append(out, st)
		}
	}
	return out
}

// lined takes what is known of the line to an endpoint. The newest is read with the lock of
// the service, so that whoever comes last has it.
func (s *Service) lined(e *Endpoint, x *lines, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.mu.Lock()
	l, known := x.by[e.Address]
	x.mu.Unlock()
	if known {
		e.width = l.Line
		s.widthLocked(e, now)
	}
}

// widthLocked puts what is known of the line to an endpoint into its load, and notes when
// that is to be looked at again.
func (s *Service) widthLocked(e *Endpoint, now time.Time) {
	l := s.loadLocked(e)
	l.Bandwidth, l.Back, l.Trial = e.width.There.Known(now), e.width.Back.Known(now), e.width.Trial
	l.Clear = e.width.Clear
	if until := e.width.Until(now); !until.IsZero() && (s.lineUntil.IsZero() || until.Before(s.lineUntil)) {
		s.lineUntil = until
	}
}

// agedLocked forgets estimates that are too old. It looks only when one may be.
func (s *Service) agedLocked(now time.Time) {
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
type sizes struct{ body, answer counters.Mean }

// expect is what a request will move there and back: its body (below 0: it does not say,
// and counts as the mean) and the mean answer.
func (z *sizes) expect(body int64) (there, back int64) {
	if body < 0 {
		body = int64(z.body.Value())
	}
	return body, int64(z.answer.Value())
}
