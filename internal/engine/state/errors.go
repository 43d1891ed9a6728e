package state

import (
	"errors"
	"net"
)

// ErrStopped is wrapped by the errors of calls to an engine that has ended or
// is about to.
var ErrStopped = errors.New("the engine has stopped")

// ErrBadOrders is wrapped by the error of Apply for orders that no engine could
// act on. Sending them again is of no use.
var ErrBadOrders = errors.New("the orders can't be acted on")

// ErrNoInstance is wrapped by the error of Logs for an instance that is not here.
var ErrNoInstance = errors.New("no such instance on this worker")

// ErrBadQuery is wrapped by errors about a request that asks for something impossible.
var ErrBadQuery = errors.New("bad query")

// WithoutAddress strips the addresses off a network error, for messages that name the port.
func WithoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
