package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

var _ Conn = (*MemConn)(nil)

// Mem is the twin of a server's account for tests: connections that were made
// by one Mem reach each other, within their permissions.
type Mem struct {
	mu    sync.Mutex
	conns []*MemConn // guarded by mu; those not closed
}

// NewMem returns a hub without connections.
func NewMem() *Mem { return &Mem{} }

// MemConn is a connection of a Mem.
type MemConn struct {
	hub   *Mem
	name  string
	allow Permissions

	wg sync.WaitGroup // one per subscription
	// Guarded by hub.mu.
	subs    []*memSub
	up      bool
	changed chan struct{}
	closed  bool
	pending map[*memRequest]struct{}
}

type memSub struct {
	conn    *MemConn
	subject string
	handler Handler
	cancel  context.CancelFunc
	wake    chan struct{} // capacity 1
	// Guarded by hub.mu.
	queue []Msg
	gone  bool
}

type memRequest struct {
	answer chan memAnswer // capacity 1
}

type memAnswer struct {
	data []byte
	err  error
}

// Conn makes a connected connection under an identity. The name is for errors.
func (h *Mem) Conn(name string, allow Permissions) *MemConn {
	c := &MemConn{hub: h, name: name, allow: allow, up: true, changed: make(chan struct{}), pending: map[*memRequest]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, c)
	return c
}

// SetConnected cuts the connection from the hub or brings it back.
// Subscriptions stay; messages of the time between are lost.
func (c *MemConn) SetConnected(up bool) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.closed || c.up == up {
		return
	}
	c.up = up
	close(c.changed)
	c.changed = make(chan struct{})
	if !up {
		c.failPendingLocked(ErrDisconnected)
	}
}

func (c *MemConn) failPendingLocked(err error) {
	for r := range c.pending {
		r.reply(memAnswer{err: fmt.Errorf("%s: %w", c.name, err)})
	}
	clear(c.pending)
}

// reply gives the first answer; later ones are dropped.
func (r *memRequest) reply(a memAnswer) {
	select {
	case r.answer <- a:
	default:
	}
}

// Publish implements Conn.
func (c *MemConn) Publish(subject string, data []byte) error {
	if err := c.allow.checkPublish(subject); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if err := c.usableLocked(); err != nil {
		return err
	}
	c.hub.deliverLocked(Msg{Subject: subject, Data: slices.Clone(data), Respond: noAnswerWanted, OneWay: true})
	return nil
}

// Send implements Conn.
func (c *MemConn) Send(ctx context.Context, subject string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Publish(subject, data)
}

func noAnswerWanted([]byte) error {
	return errors.New("respond: the message asks for no answer")
}

func (c *MemConn) usableLocked() error {
	switch {
	case c.closed:
		return fmt.Errorf("%s: %w", c.name, ErrClosed)
	case !c.up:
		return fmt.Errorf("%s: %w", c.name, ErrDisconnected)
	}
	return nil
}

// deliverLocked queues m for all who listen and returns how many do.
func (h *Mem) deliverLocked(m Msg) int {
	n := 0
	for _, c := range h.conns {
		if !c.up {
			continue
		}
		for _, s := range c.subs {
			if covers(s.subject, m.Subject) {
				n++
				s.queue = append(s.queue, m)
				select {
				case s.wake <- struct{}{}:
				default:
				}
			}
		}
	}
	return n
}

// Request implements Conn.
func (c *MemConn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := c.allow.checkPublish(subject); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := c.ask(subject, data)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		delete(c.pending, r)
	}()
	select {
	case a := <-r.answer:
		return a.data, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", subject, ctx.Err())
	}
}

func (c *MemConn) ask(subject string, data []byte) (*memRequest, error) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if err := c.usableLocked(); err != nil {
		return nil, err
	}
	r := &memRequest{answer: make(chan memAnswer, 1)}
	respond := func(answer []byte) error {
		r.reply(memAnswer{data: slices.Clone(answer)})
		return nil
	}
	if c.hub.deliverLocked(Msg{Subject: subject, Data: slices.Clone(data), Respond: respond}) == 0 {
		return nil, fmt.Errorf("request %s: %w", subject, ErrNoResponder)
	}
	c.pending[r] = struct{}{}
	return r, nil
}

// Subscribe implements Conn.
func (c *MemConn) Subscribe(subject string, h Handler) (unsubscribe func(), err error) {
	if err := c.allow.checkSubscribe(subject); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &memSub{conn: c, subject: subject, handler: h, cancel: cancel, wake: make(chan struct{}, 1)}
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.closed {
		s.cancel()
		return nil, fmt.Errorf("%s: %w", c.name, ErrClosed)
	}
	c.subs = append(c.subs, s)
	c.wg.Go(func() { s.run(ctx) })
	return func() {
		c.hub.mu.Lock()
		defer c.hub.mu.Unlock()
		s.endLocked()
		c.subs = slices.DeleteFunc(c.subs, func(o *memSub) bool { return o == s })
	}, nil
}

func (s *memSub) endLocked() {
	s.gone = true
	s.queue = nil
	s.cancel()
}

func (s *memSub) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for m, ok := s.next(); ok; m, ok = s.next() {
			s.handler(ctx, m)
		}
	}
}

func (s *memSub) next() (Msg, bool) {
	s.conn.hub.mu.Lock()
	defer s.conn.hub.mu.Unlock()
	if s.gone || len(s.queue) == 0 {
		return Msg{}, false
	}
	m := s.queue[0]
	s.queue = s.queue[1:]
	return m, true
}

// Drained implements Conn: nothing is on its way for long.
func (c *MemConn) Drained(ctx context.Context) error { return ctx.Err() }

// Connected implements Conn.
func (c *MemConn) Connected() (bool, <-chan struct{}) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.up, c.changed
}

// Close implements Conn.
func (c *MemConn) Close() {
	c.hub.mu.Lock()
	if !c.closed {
		c.closed = true
		if c.up {
			c.up = false
			close(c.changed)
			c.changed = make(chan struct{})
		}
		for _, s := range c.subs {
			s.endLocked()
		}
		c.subs = nil
		c.failPendingLocked(ErrClosed)
		c.hub.conns = slices.DeleteFunc(c.hub.conns, func(o *MemConn) bool { return o == c })
	}
	c.hub.mu.Unlock()
	c.wg.Wait()
}
