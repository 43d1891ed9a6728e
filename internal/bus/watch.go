package bus

import (
	"strings"
	"sync"
)

// watcher runs the calls of one Watch on a goroutine of its own, so that a
// Commit never waits for a listener and a listener may hold locks that a
// committer wants.
type watcher struct {
	prefix string
	fn     func([]Entry)
	wake   chan struct{} // capacity 1
	quit   chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	queue [][]Entry // guarded by mu
}

// notify queues what of entries concerns the watcher.
func (w *watcher) notify(entries []Entry) {
	var mine []Entry
	for _, e := range entries {
		if strings.HasPrefix(e.Key, w.prefix) {
			mine = append(mine, e)
		}
	}
	if len(mine) > 0 {
		w.push(mine)
	}
}

func (w *watcher) push(batch []Entry) {
	w.mu.Lock()
	w.queue = append(w.queue, batch)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() [][]Entry {
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

// watch registers fn and gives it what is there now.
func (m *mirror) watch(prefix string, fn func([]Entry)) (stop func()) {
	w := &watcher{prefix: prefix, fn: fn, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return func() {}
	}
	w.push(m.listLocked(prefix))
	m.watchers[w] = struct{}{}
	m.mu.Unlock()
	go w.run()
	return func() { m.unwatch(w) }
}

func (m *mirror) unwatch(w *watcher) {
	m.mu.Lock()
	_, running := m.watchers[w]
	delete(m.watchers, w)
	m.mu.Unlock()
	if running {
		close(w.quit)
	}
	<-w.done
}

// close ends all watches and waits for their running calls.
func (m *mirror) close() {
	m.mu.Lock()
	m.closed = true
	watchers := m.watchers
	m.watchers = map[*watcher]struct{}{}
	m.mu.Unlock()
	for w := range watchers {
		close(w.quit)
	}
	for w := range watchers {
		<-w.done
	}
}
