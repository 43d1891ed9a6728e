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

// newsTimeout bounds the lookup of changes for one peer.
const newsTimeout = 2 * time.Second

// Notifier nudges peers. If little has changed in a peer's desired state since its last report,
// the nudge carries the changes, which saves a fetch of two round trips over a far link. A
// nudge may be lost.
//
// It notifies one peer after another, on a goroutine that exists while peers are due. So a
// decision for thousands of peers does not wait until the changes of each are looked up.
type Notifier struct {
	Conn bus.Conn
	// Subject that a peer subscribes to.
	Subject func(peer string) string
	Log     *slog.Logger

	mu      sync.Mutex
	due     []string           // peers to notify, in this order
	what    map[string]changes // by peer that is due
	running bool
	closed  bool
	all     sync.WaitGroup
}

// changes are the changes for a peer: those of desired since have.
type changes struct {
	desired Desired
	have    wire.Rev
}

// Tell notifies a peer of the changes in its desired state since have, the revision of its last
// report; with a zero revision the nudge carries no changes. It does not block, and looks up
// the changes without the caller's locks.
func (h *Notifier) Tell(peer string, desired Desired, have wire.Rev) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if h.what == nil {
		h.what = map[string]changes{}
	}
	if _, there := h.what[peer]; !there {
		h.due = append(h.due, peer)
	}
	h.what[peer] = changes{desired, have}
	if !h.running {
		h.running = true
		h.all.Go(h.run)
	}
}

// Close waits for what is under way. Nobody is told anything afterwards.
func (h *Notifier) Close() {
	h.mu.Lock()
	h.closed, h.due = true, nil
	h.mu.Unlock()
	h.all.Wait()
}

// run tells those who are due.
func (h *Notifier) run() {
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

func (h *Notifier) tell(peer string, what changes) error {
	// No caller's: whoever decided has gone on. What is read lies in memory, unless the
	// store is in doubt of its last write.
	ctx, cancel := context.WithTimeout(context.Background(), newsTimeout)
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
func (t changes) news(ctx context.Context) (*wire.FetchReply, error) {
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
