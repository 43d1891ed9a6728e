package obs

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
)

const (
	// defaultEvents is how many events a role keeps.
	defaultEvents = 2000
	// maxEventPage is how many events one page holds at most.
	maxEventPage = 500
	// maxEventText bounds each text of an event, in bytes.
	maxEventText = 1024
)

// Events keeps the newest events of a role in memory. It is safe for concurrent
// use.
type Events struct {
	limit int
	tier  string // whose events they are
	base  uint64 // sequence number before the first event

	mu   sync.Mutex
	ring []apiv1.Event // grows to limit, then is overwritten from the oldest
	next int           // where the next event goes once the ring is full
	last uint64        // sequence number of the newest event, base if none
	more chan struct{} // closed and replaced by each Add
	// spaces are the namespaces of applications, see Place.
	spaces map[string]string
	sinks  []func(event.Event)
}

// NewEvents keeps up to limit events of a tier (defaultEvents if limit < 1). Sequence
// numbers start from the microseconds of start, so that they grow over restarts
// and a reader's position stays meaningful; unlike nanoseconds they are exact
// in JSON readers that know only floating-point numbers.
func NewEvents(start time.Time, limit int, tier string) *Events {
	if limit < 1 {
		limit = defaultEvents
	}
	base := uint64(max(start.UnixMicro(), 0))
	return &Events{limit: limit, tier: tier, base: base, last: base, more: make(chan struct{})}
}

// Add appends an event, wakes those who wait, and tells the sinks. Long texts are cut.
func (e *Events) Add(ev event.Event) {
	for _, sink := range e.add(ev) {
		sink(ev)
	}
}

// Note adds what has happened to a subject, which this tier says.
func (e *Events) Note(now time.Time, kind event.Kind, name, text string) {
	e.Own(now, event.Event{Kind: kind, Name: name, Text: text})
}

// Own adds events that this tier says.
func (e *Events) Own(now time.Time, events ...event.Event) {
	for _, v := range events {
		e.Add(v.By(now, e.tier))
	}
}

// Subscribe calls sink with each event that is added from now on. Whoever adds the event waits for
// the sink, so a sink must not block.
func (e *Events) Subscribe(sink func(event.Event)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sinks = append(slices.Clip(e.sinks), sink)
}

func (e *Events) add(v event.Event) []func(event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev := apiv1.Event{
		Seq: e.last, At: v.At, Tier: cut(v.Tier), Kind: v.Kind.String(), Subject: cut(v.Subject()), What: cut(v.Text),
		Namespace: e.spaces[appOf(v)],
	}
	if len(e.ring) < e.limit {
		e.ring = append(e.ring, ev)
	} else {
		e.ring[e.next] = ev
		e.next = (e.next + 1) % e.limit
	}
	close(e.more)
	e.more = make(chan struct{})
	return e.sinks
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

// appOf is the application that an event is about; "" for others.
func appOf(e event.Event) string {
	if about := e.Kind.About(); about != event.Application && about != event.Instance {
		return ""
	}
	app, _, _ := strings.Cut(e.Name, ".")
	return app
}

// Log logs the tier's own events from now on. Those of the tiers below are in their logs.
func (e *Events) Log(log *slog.Logger) {
	level := map[event.Severity]slog.Level{
		event.Debug: slog.LevelDebug, event.Info: slog.LevelInfo, event.Warning: slog.LevelWarn,
		event.Error: slog.LevelError,
	}
	e.Subscribe(func(v event.Event) {
		if l := level[v.Kind.Severity()]; v.Tier == e.tier && log.Enabled(context.Background(), l) {
			log.Log(context.Background(), l, v.Text, "event", v.Kind.String(), "subject", v.Subject())
		}
	})
}

func cut(s string) string {
	if len(s) <= maxEventText {
		return s
	}
	return strings.ToValidUTF8(s[:maxEventText], "") + "…"
}

// After returns the events with a sequence number above seq, oldest first, at
// most maxEventPage of them; if some of them are no longer kept, from the
// oldest that is. When there are none it waits for the first, until wait is
// over or ctx ends; then the page is empty and its After the place to go on
// from. A seq above the newest event is from another run of the role whose
// clock was ahead: such a reader gets all that is kept.
func (e *Events) After(ctx context.Context, seq uint64, wait time.Duration) apiv1.EventPage {
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
func (e *Events) page(seq uint64) (apiv1.EventPage, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seq > e.last {
		seq = e.base
	}
	oldest := e.last - uint64(len(e.ring)) // the number before the oldest kept
	if seq < oldest {
		seq = oldest
	}
	n := min(int(e.last-seq), maxEventPage)
	page := apiv1.EventPage{Events: make([]apiv1.Event, 0, n), After: seq + uint64(n)}
	first := int(seq - oldest)
	for i := range n {
		// Before the ring is full next is 0, so the formula holds there too.
		page.Events = append(page.Events, e.ring[(e.next+first+i)%len(e.ring)])
	}
	return page, e.more
}
