package obs

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// DefaultEvents is how many events a role keeps.
	DefaultEvents = 2000
	// MaxEventPage is how many events one page holds at most.
	MaxEventPage = 500
	// maxEventText bounds each text of an event, in bytes.
	maxEventText = 1024
)

// Events keeps the newest events of a role in memory. It is safe for concurrent
// use.
type Events struct {
	limit int
	base  uint64 // sequence number before the first event

	mu   sync.Mutex
	ring []wire.Event  // grows to limit, then is overwritten from the oldest
	next int           // where the next event goes once the ring is full
	last uint64        // sequence number of the newest event, base if none
	more chan struct{} // closed and replaced by each Add
	// spaces are the namespaces of applications, see Place.
	spaces map[string]string
}

// NewEvents keeps up to limit events (DefaultEvents if limit < 1). Sequence
// numbers start from the microseconds of start, so that they grow over restarts
// and a reader's position stays meaningful; unlike nanoseconds they are exact
// in JSON readers that know only floating-point numbers.
func NewEvents(start time.Time, limit int) *Events {
	if limit < 1 {
		limit = DefaultEvents
	}
	base := uint64(max(start.UnixMicro(), 0))
	return &Events{limit: limit, base: base, last: base, more: make(chan struct{})}
}

// Add appends an event and wakes those who wait. Long texts are cut.
func (e *Events) Add(now time.Time, tier, subject, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev := wire.Event{Seq: e.last, At: now, Tier: cut(tier), Subject: cut(subject), What: cut(what), Namespace: e.spaces[appOf(subject)]}
	if len(e.ring) < e.limit {
		e.ring = append(e.ring, ev)
	} else {
		e.ring[e.next] = ev
		e.next = (e.next + 1) % e.limit
	}
	close(e.more)
	e.more = make(chan struct{})
}

// maxSpaces bounds the applications whose namespace is remembered.
const maxSpaces = 20_000

// Place says which namespace an application is in, for the events of it from now
// on: those of one that is gone stay with the namespace that it was in.
func (e *Events) Place(app, namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spaces == nil || len(e.spaces) >= maxSpaces {
		e.spaces = map[string]string{}
	}
	e.spaces[app] = namespace
}

// appOf is the application that a subject is of: "application/a", "instance/a.b.0".
func appOf(subject string) string {
	kind, name, _ := strings.Cut(subject, "/")
	if kind != "application" && kind != "instance" {
		return ""
	}
	app, _, _ := strings.Cut(name, ".")
	return app
}

func cut(s string) string {
	if len(s) <= maxEventText {
		return s
	}
	return strings.ToValidUTF8(s[:maxEventText], "") + "…"
}

// After returns the events with a sequence number above seq, oldest first, at
// most MaxEventPage of them; if some of them are no longer kept, from the
// oldest that is. When there are none it waits for the first, until wait is
// over or ctx ends; then the page is empty and its After the place to go on
// from. A seq above the newest event is from another run of the role whose
// clock was ahead: such a reader gets all that is kept.
func (e *Events) After(ctx context.Context, seq uint64, wait time.Duration) wire.EventPage {
	page, more := e.page(seq)
	if len(page.Events) > 0 || wait <= 0 {
		return page
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-more:
		page, _ = e.page(page.After)
	case <-timer.C:
	case <-ctx.Done():
	}
	return page
}

// page is what After returns without waiting, and what tells of the next event.
func (e *Events) page(seq uint64) (wire.EventPage, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seq > e.last {
		seq = e.base
	}
	oldest := e.last - uint64(len(e.ring)) // the number before the oldest kept
	if seq < oldest {
		seq = oldest
	}
	n := min(int(e.last-seq), MaxEventPage)
	page := wire.EventPage{Events: make([]wire.Event, 0, n), After: seq + uint64(n)}
	first := int(seq - oldest)
	for i := range n {
		// Before the ring is full next is 0, so the formula holds there too.
		page.Events = append(page.Events, e.ring[(e.next+first+i)%len(e.ring)])
	}
	return page, e.more
}
