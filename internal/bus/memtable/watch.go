package memtable

import (
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
)

// watcher runs the calls of one Watch on a goroutine of its own, so that a
// Commit never waits for a listener and a listener may hold locks that a
// committer wants.
type watcher struct {
	prefix string
	fn     func([]bus.Entry)
	wake   chan struct{} // capacity 1
	quit   chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	queue [][]bus.Entry // guarded by mu
}

// notify queues what of entries concerns the watcher.
func (w *watcher) notify(entries []bus.Entry) {
	var mine []bus.Entry
	for _, e := range entries {
		if strings.HasPrefix(e.Key, w.prefix) {
			mine = append(mine, e)
		}
	}
	if len(mine) > 0 {
		w.push(mine)
	}
}

func (w *watcher) push(batch []bus.Entry) {
	w.mu.Lock()
	w.queue = append(w.queue, batch)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() [][]bus.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queue
	w.queue = nil
	return q
}

func (w *watcher) run() {
	defer close(w.done)
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
		}
		for _, batch := range w.take() {
			select {
			case <-w.quit:
				return
			default:
			}
			w.fn(batch)
		}
	}
}
