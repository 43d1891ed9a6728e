package rest

import "sync"

// Endings tell open requests that their caller may do less than when they began.
// The zero value is ready; it is safe for concurrent use.
type Endings struct {
	mu   sync.Mutex
	open map[string]chan struct{} // guarded by mu
}

// Of is closed at the next End of a name. It is taken before it is looked up what
// the name may do, so that no change goes unnoticed.
func (e *Endings) Of(name string) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[string]chan struct{}{}
	}
	if e.open[name] == nil {
		e.open[name] = make(chan struct{})
	}
	return e.open[name]
}

// End cuts off what a name has open.
func (e *Endings) End(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.open[name]; c != nil {
		close(c)
		delete(e.open, name)
	}
}
