package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// maxNews bounds what goes along with a nudge, in bytes: what is fetched comes in pages
// and is asked for again, a nudge is sent once to whoever hears it.
const maxNews = 32 << 10

// newsPatience bounds the look for what is new for one peer.
const newsPatience = 2 * time.Second

// Herald nudges peers, with what is new of their desired state since they were heard last,
// if that is little: such a peer need not fetch, which over a far link takes two ways there
// and back. What it sends may be lost as any nudge.
//
// It tells one peer after another, on a goroutine that there is while somebody is to be
// told: whoever decides something for thousands of peers does not wait until what is new
// has been looked up for each.
type Herald struct {
	Conn bus.Conn
	// Subject on which a peer hears.
	Subject func(peer string) string
	Log     *slog.Logger

	mu      sync.Mutex
	due     []string           // who is to be told, in this order
	what    map[string]tidings // by those who are due
	running bool
	closed  bool
	all     sync.WaitGroup
}

// tidings are of what a peer is told, if it is told anything but to report: what is new in
// desired since have.
type tidings struct {
	desired Desired
	have    wire.Rev
}

// Tell has a peer told what is new of its desired state since have, the revision that it
// had when it was heard last; where that is zero it is told nothing but to report. It does
// not wait, and what is new is looked up without the caller's locks.
func (h *Herald) Tell(peer string, desired Desired, have wire.Rev) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if h.what == nil {
		h.what = map[string]tidings{}
	}
	if _, there := h.what[peer]; !there {
		h.due = append(h.due, peer)
	}
	h.what[peer] = tidings{desired, have}
	if !h.running {
		h.running = true
		h.all.Go(h.run)
	}
}

// Close waits for what is under way. Nobody is told anything afterwards.
func (h *Herald) Close() {
	h.mu.Lock()
	h.closed, h.due = true, nil
	h.mu.Unlock()
	h.all.Wait()
}

// run tells those who are due.
func (h *Herald) run() {
	for {
		h.mu.Lock()
		if len(h.due) == 0 {
			h.running, h.due = false, nil
			h.mu.Unlock()
			return
		}
		peer := h.due[0]
		h.due = h.due[1:]
		what := h.what[peer]
		delete(h.what, peer)
		h.mu.Unlock()
		if err := h.tell(peer, what); err != nil {
			h.Log.Debug("telling what is new", "peer", peer, "error", err)
		}
	}
}

func (h *Herald) tell(peer string, what tidings) error {
	// No caller's: whoever decided has gone on. What is read lies in memory, unless the
	// store is in doubt of its last write.
	ctx, cancel := context.WithTimeout(context.Background(), newsPatience)
	defer cancel()
	down := wire.Down{V: wire.Version, Nudge: true}
	news, why := what.news(ctx)
	if news != nil {
		down.Since, down.News = what.have, news
	}
	b, err := json.Marshal(down)
	if err == nil {
		err = h.Conn.Publish(h.Subject(peer), b)
	}
	return errors.Join(why, err)
}

// news is what is new, nil where that is everything, too much or nothing.
func (t tidings) news(ctx context.Context) (*wire.FetchReply, error) {
	if t.have.IsZero() {
		return nil, nil
	}
	news, err := t.desired.Fetch(ctx, wire.Fetch{V: wire.Version, Since: t.have})
	if err != nil {
		return nil, fmt.Errorf("reading what is new since %s: %w", t.have, err)
	}
	size := 0
	for _, c := range news.Changes {
		size += len(c.Key) + len(c.Value)
	}
	if news.Full || news.More || news.Moved || size == 0 || size > maxNews {
		return nil, nil
	}
	return &news, nil
}
