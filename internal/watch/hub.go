package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of a Hub.
const (
	// maxLog is how many changes are kept.
	maxLog = 4096
	// maxStream is how many items of a stream are shown to who begins.
	maxStream = 500
	// minGap and maxGap are between two makings of the lists; in between it is
	// gapFactor times what the last took, so that they take a tenth of one processor.
	minGap    = 100 * time.Millisecond
	maxGap    = 5 * time.Second
	gapFactor = 9
	// linger is how long the log goes on when nobody watches: whoever lost the
	// connection may be back at once.
	linger = 15 * time.Second
)

// ErrTooMany is wrapped by the error of Join where enough others watch.
var ErrTooMany = errors.New("too many watches")

// errClosed: Close was called.
var errClosed = errors.New("the watches have ended")

// Item of a list.
type Item struct {
	Key string
	// Value is not changed once it is here.
	Value any
	// Same is equal for two versions of an item between which nothing happened.
	Same string
}

// Source is a list that may be watched.
type Source struct {
	Kind string
	List func(ctx context.Context) ([]Item, error)
	// Next makes it a stream, whose items come and stay: it waits for those after
	// one (the zero Item: for the first).
	Next func(ctx context.Context, after Item) ([]Item, error)
	// Every is how often it is listed at most; 0 is as often as it changes. With
	// Poll it is listed that often although nothing tells of a change.
	Every time.Duration
	Poll  bool
}

// Options of a Hub.
type Options struct {
	Sources []Source
	// Changed returns what is closed at the next sign of a change in any list.
	Changed func() <-chan struct{}
	// Max is how many may watch at once.
	Max int
	Log *slog.Logger
}

// Hub is the place where changes are heard of. It is safe for concurrent use.
type Hub struct {
	opts    Options
	sources map[string]Source
	all     sync.WaitGroup // goroutines of runs

	mu     sync.Mutex // guards below
	run    *run       // nil while nobody watches
	n      int        // who watch
	empty  *time.Timer
	closed bool
}

// NewHub makes a hub.
func NewHub(o Options) *Hub {
	h := &Hub{opts: o, sources: map[string]Source{}}
	for _, s := range o.Sources {
		h.sources[s.Kind] = s
	}
	return h
}

// Has says whether there is a list of that kind.
func (h *Hub) Has(kind string) bool {
	_, ok := h.sources[kind]
	return ok
}

// Kinds returns the kinds of all lists, sorted.
func (h *Hub) Kinds() []string { return slices.Sorted(maps.Keys(h.sources)) }

// Watching is how many watch now.
func (h *Hub) Watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// Close ends everything and waits for it. Watches that are open get no more news.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.endLocked()
	h.mu.Unlock()
	h.all.Wait()
}

func (h *Hub) endLocked() {
	if h.run != nil {
		h.run.cancel()
		h.run = nil
	}
	if h.empty != nil {
		h.empty.Stop()
	}
}

// Join begins a watch of some kinds, to be closed by who asked for it. The error
// is that of a list that cannot be made.
func (h *Hub) Join(ctx context.Context, kinds []string) (*Watch, error) {
	for _, k := range kinds {
		if !h.Has(k) {
			return nil, fmt.Errorf("there is no list of %q", k)
		}
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, errClosed
	}
	if h.n >= h.opts.Max {
		h.mu.Unlock()
		return nil, fmt.Errorf("%w: %d watch already", ErrTooMany, h.n)
	}
	h.n++
	if h.empty != nil {
		h.empty.Stop()
	}
	if h.run == nil {
		h.run = h.begin()
	}
	w := &Watch{run: h.run, kinds: map[string]bool{}}
	h.mu.Unlock()
	for _, k := range kinds {
		w.kinds[k] = true
	}
	if err := w.run.want(ctx, w.kinds); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// leave notes that somebody does not watch any more.
func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n > 0 || h.closed {
		return
	}
	h.empty = time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.n == 0 {
			h.endLocked()
		}
	})
}

// begin starts a log. The mutex is held.
func (h *Hub) begin() *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{
		hub: h, id: wire.NewID()[:12], life: func() context.Context { return ctx }, cancel: cancel,
		kinds: map[string]*list{}, changed: make(chan struct{}), kick: make(chan struct{}, 1), listing: make(chan struct{}, 1),
	}
	h.all.Go(func() { r.work(ctx) })
	return r
}

// spawn starts a goroutine that Close waits for, unless that has been called.
func (h *Hub) spawn(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.all.Go(f)
	}
}
