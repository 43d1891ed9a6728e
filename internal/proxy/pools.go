package proxy

import "github.com/verge-edge/verge/internal/proxy/http1"

// await notes that a request waits for the endpoint, until awaited.
func (e *endpoint) await(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[*waiter]struct{}{}
	}
	e.waiting[w] = struct{}{}
}

func (e *endpoint) awaited(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, w)
}

// newPool keeps connections as newTransport does.
func newPool() *http1.Pool { return &http1.Pool{Max: 256, Idle: upstreamIdle} }

// pool keeps the streams to a port of an endpoint of another worker; nil where none is
// to be kept.
func (e *endpoint) pool(port string) *http1.Pool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired || e.parked {
		return nil
	}
	p := e.pools[port]
	if p == nil {
		p = newPool()
		if e.pools == nil {
			e.pools = map[string]*http1.Pool{}
		}
		e.pools[port] = p
	}
	return p
}
