package http1

import (
	"sync"
	"time"
)

// Pool keeps idle connections to one upstream for the next requests. The zero value
// keeps none: set Max and Idle.
type Pool struct {
	// Max is how many it keeps.
	Max int
	// Idle is for how long.
	Idle time.Duration

	mu     sync.Mutex // guards below
	idle   []*Conn    // the one used last is the last
	closed bool
	timer  *time.Timer // ends those that are too old; nil while there are none
}

// fresh is for how long after its use a kept connection is believed to be good, where
// nothing is lost if it is not.
const fresh = time.Second

// Get returns a kept connection, nil where there is none that is still good. With
// repeatable one that was just used is not looked at: the request can be sent again.
func (p *Pool) Get(now Instant, repeatable bool) *Conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if repeatable && now.Sub(c.idleSince) < fresh {
			return c
		}
		// One that has anything to say now has ended, or is out of step.
		if c.look() == silent {
			return c
		}
		_ = c.Close()
	}
}

// Put keeps a connection, after an Answer that said that it is reusable. now may be
// somewhat in the past.
func (p *Pool) Put(c *Conn, now Instant) {
	c.idleSince, c.reused = now, true
	p.mu.Lock()
	if p.closed || len(p.idle) >= p.Max {
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.Idle, p.expire)
	}
	p.mu.Unlock()
}

// expire closes those that were not used for too long.
func (p *Pool) expire() {
	p.mu.Lock()
	limit, k := Now().After(-p.Idle), 0
	for k < len(p.idle) && p.idle[k].idleSince <= limit {
		k++
	}
	old := append([]*Conn(nil), p.idle[:k]...)
	p.idle = append(p.idle[:0], p.idle[k:]...)
	p.timer = nil
	if len(p.idle) > 0 {
		// The next one, or a moment later, so that one round ends many.
		p.timer = time.AfterFunc(max(p.idle[0].idleSince.Sub(limit), time.Second), p.expire)
	}
	p.mu.Unlock()
	for _, c := range old {
		_ = c.Close()
	}
}

// CloseIdle closes those that are kept now.
func (p *Pool) CloseIdle() {
	p.mu.Lock()
	all := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// Close closes those that are kept, and those that come.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	p.CloseIdle()
}

// Len is how many are kept.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
