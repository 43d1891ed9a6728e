package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe" // for two functions of another package whose types have no name here

	"github.com/nats-io/nats-server/v2/server"
)

// Direct is a Conn in the process of its server which can be given messages by whoever
// has read them.
type Direct interface {
	Conn
	// SubscribeDirect is Subscribe with a handler that the goroutine of the sender's
	// connection calls: messages of one connection in order, of several at the same time.
	// h must not wait for anything. Data is the server's, and is overwritten when h has
	// returned.
	SubscribeDirect(subject string, h Handler) (unsubscribe func(), err error)
}

// A message to a client in the same process wakes four goroutines after each other: the
// one that writes to that client, the client's reader, the handler's, and the first again.
// At a thousand heartbeats a second that was more than what is done with them. The server
// has callbacks for its own use, which cannot be reached from outside otherwise.

//go:linkname subscribeInternal github.com/nats-io/nats-server/v2/server.(*Account).subscribeInternal
func subscribeInternal(a *server.Account, subject string, cb func(sub, client unsafe.Pointer, acc *server.Account, subject, reply string, msg []byte)) (unsafe.Pointer, error)

//go:linkname unsubscribeInternal github.com/nats-io/nats-server/v2/server.(*Account).unsubscribeInternal
func unsubscribeInternal(a *server.Account, sub unsafe.Pointer)

// ownConn is a connection into an account of the own server.
type ownConn struct {
	*conn
	ns      *server.Server
	account string // its public key
}

var _ Direct = ownConn{}

// SubscribeDirect implements Direct.
func (c ownConn) SubscribeDirect(subject string, h Handler) (unsubscribe func(), err error) {
	if err := c.allow.checkSubscribe(subject); err != nil {
		return nil, err
	}
	acc, err := c.ns.LookupAccount(c.account)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended atomic.Bool
	sub, err := subscribeInternal(acc, subject, func(_, _ unsafe.Pointer, _ *server.Account, subject, reply string, msg []byte) {
		if ended.Load() {
			return
		}
		h(ctx, Msg{Subject: subject, Data: withoutEnd(msg), Respond: c.answer(reply), OneWay: reply == ""})
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return func() {
		if !ended.Swap(true) {
			cancel()
			unsubscribeInternal(acc, sub)
		}
	}, nil
}

// withoutEnd takes the end of a line away that the server's callbacks get with a message.
func withoutEnd(msg []byte) []byte {
	const end = "\r\n"
	if n := len(msg) - len(end); n >= 0 && string(msg[n:]) == end {
		return msg[:n]
	}
	return msg
}

// answer is responder for a message that the server has handed over.
func (c ownConn) answer(reply string) func([]byte) error {
	if reply == "" {
		return noAnswerWanted
	}
	return func(data []byte) error { return wrapConnError("respond", c.nc.Publish(reply, data)) }
}
