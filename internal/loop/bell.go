package loop

import "sync"

// Bell tells those who listen that something has changed. While nobody does,
// ringing it costs next to nothing. The zero Bell is ready to use.
type Bell struct {
	mu   sync.Mutex
	next chan struct{} // nil while nobody listens
}

// Listen returns what is closed when the bell rings next.
func (b *Bell) Listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Ring rings once.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
