package bustest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

var _ bus.Conn = (*MemConn)(nil)

// Mem is the twin of a server's account for tests: connections that were made
// by one Mem reach each other, within their permissions.
type Mem struct {
	mu  sync.Mutex
	hub memHub // guarded by mu
}

// NewMem returns a hub without connections.
func NewMem() *Mem { return &Mem{} }

// MemConn is a connection of a Mem.
type MemConn struct {
	mem   *Mem
	allow bus.Permissions
	wg    sync.WaitGroup // one per subscription
	end   *memEnd        // guarded by mem.mu
	acked atomic.Int64   // see AcknowledgeAfter
}

// memHub has the ends of all connections that are not closed. It and what belongs to it has
// no lock: the Mem has it.
type memHub struct{ ends []*memEnd }

// memEnd is a connection as the hub sees it.
type memEnd struct {
	name    string
	subs    []*memSub
	up      bool
	changed chan struct{}
	closed  bool
	pending map[*memRequest]struct{}
}

type memSub struct {
	mem     *Mem
	subject string
	handler bus.Handler
	cancel  context.CancelFunc
	wake    chan struct{} // capacity 1
	// Guarded by mem.mu.
	queue []bus.Msg
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
func (h *Mem) Conn(name string, allow bus.Permissions) *MemConn {
	end := &memEnd{name: name, up: true, changed: make(chan struct{}), pending: map[*memRequest]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hub.ends = append(h.hub.ends, end)
	return &MemConn{mem: h, allow: allow, end: end}
}

// SetConnected cuts the connection from the hub or brings it back.
// Subscriptions stay; messages of the time between are lost.
func (c *MemConn) SetConnected(up bool) {
	c.mem.mu.Lock()
	defer c.mem.mu.Unlock()
	if !c.end.closed {
		c.end.set(up)
	}
}

// set notes that the end was cut off or is back.
func (e *memEnd) set(up bool) {
	if e.up == up {
		return
	}
	e.up = up
	close(e.changed)
	e.changed = make(chan struct{})
	if !up {
		e.fail(bus.ErrDisconnected)
	}
}

// fail ends the requests under way.
func (e *memEnd) fail(err error) {
	for r := range e.pending {
		r.reply(memAnswer{err: fmt.Errorf("%s: %w", e.name, err)})
	}
	clear(e.pending)
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
	if err := c.allow.CheckPublish(subject); err != nil {
		return fmt.Errorf("%s: %w", c.end.name, err)
	}
	c.mem.mu.Lock()
	defer c.mem.mu.Unlock()
	if err := c.end.usable(); err != nil {
		return err
	}
	c.mem.hub.deliver(bus.Msg{Subject: subject, Data: slices.Clone(data), Respond: bus.NoAnswerWanted, OneWay: true})
	return nil
}

// Send implements Conn.
func (c *MemConn) Send(ctx context.Context, subject string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	after := time.Duration(c.acked.Load())
	if err := c.Publish(subject, data); err != nil || after == 0 {
		return err
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AcknowledgeAfter is how long Send waits for the kernel at the other end from now on.
func (c *MemConn) AcknowledgeAfter(d time.Duration) { c.acked.Store(int64(d)) }

// usable says why nothing can be sent.
func (e *memEnd) usable() error {
	switch {
	case e.closed:
		return fmt.Errorf("%s: %w", e.name, bus.ErrClosed)
	case !e.up:
		return fmt.Errorf("%s: %w", e.name, bus.ErrDisconnected)
	}
	return nil
}

// deliver queues m for all who listen and returns how many do.
func (h *memHub) deliver(m bus.Msg) int {
	n := 0
	for _, c := range h.ends {
		if !c.up {
			continue
		}
		for _, s := range c.subs {
			if bus.Covers(s.subject, m.Subject) {
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
	if err := c.allow.CheckPublish(subject); err != nil {
		return nil, fmt.Errorf("%s: %w", c.end.name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := c.ask(subject, data)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.mem.mu.Lock()
		defer c.mem.mu.Unlock()
		delete(c.end.pending, r)
	}()
	select {
	case a := <-r.answer:
		return a.data, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", subject, ctx.Err())
	}
}

func (c *MemConn) ask(subject string, data []byte) (*memRequest, error) {
	c.mem.mu.Lock()
	defer c.mem.mu.Unlock()
	if err := c.end.usable(); err != nil {
		return nil, err
	}
	r := &memRequest{answer: make(chan memAnswer, 1)}
	respond := func(answer []byte) error {
		r.reply(memAnswer{data: slices.Clone(answer)})
		return nil
	}
	if c.mem.hub.deliver(bus.Msg{Subject: subject, Data: slices.Clone(data), Respond: respond}) == 0 {
		return nil, fmt.Errorf("request %s: %w", subject, bus.ErrNoResponder)
	}
	c.end.pending[r] = struct{}{}
	return r, nil
}

// Subscribe implements Conn.
func (c *MemConn) Subscribe(subject string, h bus.Handler) (unsubscribe func(), err error) {
	if err := c.allow.CheckSubscribe(subject); err != nil {
		return nil, fmt.Errorf("%s: %w", c.end.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &memSub{mem: c.mem, subject: subject, handler: h, cancel: cancel, wake: make(chan struct{}, 1)}
	c.mem.mu.Lock()
	defer c.mem.mu.Unlock()
	if c.end.closed {
		s.cancel()
		return nil, fmt.Errorf("%s: %w", c.end.name, bus.ErrClosed)
	}
	c.end.subs = append(c.end.subs, s)
	c.wg.Go(func() { s.run(ctx) })
	return func() {
		c.mem.mu.Lock()
		defer c.mem.mu.Unlock()
		s.end()
		c.end.subs = slices.DeleteFunc(c.end.subs, func(o *memSub) bool { return o == s })
	}, nil
}

func (s *memSub) end() {
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

func (s *memSub) next() (bus.Msg, bool) {
	s.mem.mu.Lock()
	defer s.mem.mu.Unlock()
	if s.gone || len(s.queue) == 0 {
		return bus.Msg{}, false
	}
	m := s.queue[0]
	s.queue = s.queue[1:]
	return m, true
}

// Drained implements Conn: nothing is on its way for long.
func (c *MemConn) Drained(ctx context.Context) error { return ctx.Err() }

// Connected implements Conn.
func (c *MemConn) Connected() (bool, <-chan struct{}) {
	c.mem.mu.Lock()
	defer c.mem.mu.Unlock()
	return c.end.up, c.end.changed
}

// Close implements Conn.
func (c *MemConn) Close() {
	c.mem.mu.Lock()
	if !c.end.closed {
		c.end.close()
		c.mem.hub.ends = slices.DeleteFunc(c.mem.hub.ends, func(o *memEnd) bool { return o == c.end })
	}
	c.mem.mu.Unlock()
	c.wg.Wait()
}

// close ends the subscriptions and the requests under way.
func (e *memEnd) close() {
	e.closed = true
	e.fail(bus.ErrClosed)
	e.set(false)
	for _, s := range e.subs {
		s.end()
	}
	e.subs = nil
}
