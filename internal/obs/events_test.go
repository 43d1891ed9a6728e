package obs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func fill(e *Events, from, to int) {
	for i := from; i < to; i++ {
		e.Add(event.ApplicationApplied.On("a", "%d", i).By(start, "root"))
	}
}

func texts(p apiv1.EventPage) string {
	var b []string
	for _, ev := range p.Events {
		b = append(b, ev.What)
	}
	return strings.Join(b, " ")
}

func TestEventsInOrderAndPaged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := NewEvents(start, 5, "root")
	if p := e.After(ctx, 0, 0); p.Events == nil || len(p.Events) != 0 {
		t.Errorf("empty ring: %#v, want an empty list", p.Events)
	}
	fill(e, 0, 3)
	p := e.After(ctx, 0, 0)
	if got := texts(p); got != "0 1 2" {
		t.Fatalf("events %q", got)
	}
	if first := p.Events[0].Seq; first != uint64(start.UnixMicro())+1 {
		t.Errorf("first sequence number %d does not follow from the start time", first)
	}
	fill(e, 3, 4)
	if got := texts(e.After(ctx, p.After, 0)); got != "3" {
		t.Errorf("after the page: %q, want 3", got)
	}
	// 0..3 are dropped; the reader at "2" goes on with the oldest kept.
	fill(e, 4, 9)
	q := e.After(ctx, p.After, 0)
	if got := texts(q); got != "4 5 6 7 8" {
		t.Errorf("after a gap: %q, want the oldest kept onwards", got)
	}
	if got := texts(e.After(ctx, q.After-2, 0)); got != "7 8" {
		t.Errorf("in the middle of a full ring: %q", got)
	}
	if got := e.After(ctx, q.After, 0); len(got.Events) != 0 || got.After != q.After {
		t.Errorf("at the end: %+v", got)
	}
	if got := texts(e.After(ctx, q.After+1000, 0)); got != "4 5 6 7 8" {
		t.Errorf("from another run's future: %q, want all that is kept", got)
	}
}

func TestEventPagesAreBounded(t *testing.T) {
	t.Parallel()
	e := NewEvents(start, 0, "root")
	fill(e, 0, defaultEvents+10)
	var seq uint64
	next := 10
	for {
		p := e.After(t.Context(), seq, 0)
		if len(p.Events) == 0 {
			break
		}
		if len(p.Events) > maxEventPage {
			t.Fatalf("page of %d events", len(p.Events))
		}
		for _, ev := range p.Events {
			if ev.What != fmt.Sprint(next) {
				t.Fatalf("got event %s, want %d", ev.What, next)
			}
			next++
		}
		seq = p.After
	}
	if next != defaultEvents+10 {
		t.Errorf("read up to %d, want %d", next, defaultEvents+10)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	e := NewEvents(start, 1, "root")
	e.Add(event.ApplicationApplied.On("a", "x%s", strings.Repeat("é", 2000)).By(start, "root"))
	got := e.After(t.Context(), 0, 0).Events[0].What
	if len(got) > maxEventText+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "é…") {
		t.Errorf("text of %d bytes, ends %q", len(got), got[len(got)-6:])
	}
}

func TestSequenceGrowsOverRestarts(t *testing.T) {
	t.Parallel()
	old := NewEvents(start, 10, "root")
	fill(old, 0, 10)
	seq := old.After(t.Context(), 0, 0).After
	e := NewEvents(start.Add(time.Second), 10, "root")
	fill(e, 0, 1)
	if got := texts(e.After(t.Context(), seq, 0)); got != "0" {
		t.Errorf("a reader from before the restart gets %q, want the new event", got)
	}
}

func TestAfterWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents(start, 10, "root")
		fill(e, 0, 1)
		seq := e.After(t.Context(), 0, 0).After

		began := time.Now()
		p := e.After(t.Context(), seq, 30*time.Second)
		if d := time.Since(began); d != 30*time.Second || len(p.Events) != 0 || p.After != seq {
			t.Errorf("nothing happens: %+v after %v, want an empty page after 30s", p, d)
		}

		began = time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(5 * time.Second)
			fill(e, 1, 2)
		})
		for range 3 { // every waiting reader is woken
			wg.Go(func() {
				p := e.After(t.Context(), seq, time.Minute)
				if d := time.Since(began); d != 5*time.Second || texts(p) != "1" {
					t.Errorf("woken by an event: %q after %v, want 1 after 5s", texts(p), d)
				}
			})
		}
		wg.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if p := e.After(ctx, seq+1, time.Minute); len(p.Events) != 0 || time.Since(began) != time.Second {
			t.Errorf("context ends: %+v after %v", p, time.Since(began))
		}

		began = time.Now()
		if p := e.After(t.Context(), seq, time.Minute); texts(p) != "1" || time.Since(began) != 0 {
			t.Errorf("there is one already: %+v after %v", p, time.Since(began))
		}
	})
}

func TestConcurrentReadersMissNothing(t *testing.T) {
	t.Parallel()
	const total = 400
	e := NewEvents(start, total, "root")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range total / 4 {
				e.Add(event.ApplicationApplied.On("a", "w").By(start, "root"))
			}
		})
		wg.Go(func() {
			var seq, n uint64
			for n < total && ctx.Err() == nil {
				p := e.After(ctx, seq, time.Minute)
				for _, ev := range p.Events {
					n++
					if ev.Seq != e.base+n {
						t.Errorf("event %d has sequence number base+%d", n, ev.Seq-e.base)
						return
					}
				}
				seq = p.After
			}
			if n != total {
				t.Errorf("read %d events, want %d", n, total)
			}
		})
	}
	wg.Wait()
}

// Sinks are told of what was added after them; the log of what this tier says, with its kind.
func TestSinksAndTheLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	e := NewEvents(start, 10, "cluster/edge")
	e.Note(start, event.WorkerJoined, "edge/w0", "joined")
	var told []event.Event
	e.Subscribe(func(v event.Event) {
		if v.Kind == event.HookDropped {
			return
		}
		told = append(told, v)
		e.Note(v.At, event.HookDropped, "pager", "a sink may add events") // the ring is not locked
	})
	e.Log(NewLogger(&log, "text", slog.LevelInfo))
	e.Note(start, event.WorkerLost, "edge/w1", "suspect")
	e.Own(start, event.InstanceMoving.On("a.b.0", "moving from %s", "w1"), event.InstanceReady.On("a.b.0", "ready"))
	e.Add(event.InstanceFailed.On("a.b.0", "Failed: exited with 1").By(start, "worker/edge/w1"))

	if len(told) != 4 || told[0].Subject() != "worker/edge/w1" || told[0].Tier != "cluster/edge" ||
		told[3].Tier != "worker/edge/w1" {
		t.Errorf("the sink was told %+v", told)
	}
	for _, want := range []string{
		"level=WARN msg=suspect event=worker.lost subject=worker/edge/w1\n",
		"level=INFO msg=\"moving from w1\" event=instance.moving subject=instance/a.b.0\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	}
	for _, not := range []string{"joined", "msg=ready", "Failed"} { // before it, below its level, of another tier
		if strings.Contains(log.String(), not) {
			t.Errorf("the log has %q:\n%s", not, &log)
		}
	}
	if first := e.After(t.Context(), 0, 0).Events[0]; first.Kind != "worker.joined" ||
		first.Subject != "worker/edge/w0" || first.Tier != "cluster/edge" {
		t.Errorf("the ring has %+v", first)
	}
}
