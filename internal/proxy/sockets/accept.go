package sockets

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// Limiter counts what is open against a maximum.
type Limiter struct {
	Max int64
	n   atomic.Int64
}

// Take counts one more; false where there are Max already.
func (l *Limiter) Take() bool {
	if l.n.Add(1) > l.Max {
		l.n.Add(-1)
		return false
	}
	return true
}

// Give counts one less.
func (l *Limiter) Give() { l.n.Add(-1) }

// Open is how many are.
func (l *Limiter) Open() int { return int(l.n.Load()) }

// AcceptAll accepts until wait says that it is over. An error (too many open
// files, a connection that is gone already) is waited out.
func AcceptAll(ln net.Listener, wait func(time.Duration) bool, log *slog.Logger, handle func(*net.TCPConn)) {
	const most = time.Second
	delay := time.Duration(0)
	for {
		c, err := ln.Accept()
		if err == nil {
			delay = 0
			if tcp, ok := c.(*net.TCPConn); ok {
				handle(tcp)
			}
			continue
		}
		delay = min(max(2*delay, 5*time.Millisecond), most)
		if !wait(delay) {
			return
		}
		log.Warn("cannot accept connections, trying again", "addr", ln.Addr().String(), "why", err)
	}
}

// WaitOrDone returns a function that waits and is false once ctx has ended.
func WaitOrDone(ctx context.Context) func(time.Duration) bool {
	return func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
}
