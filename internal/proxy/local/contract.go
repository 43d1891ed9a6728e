package local

import (
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Why an instance of this worker takes no new connection. Local.Target returns
// an error that is or wraps one of them; another worker's router is told which.
var (
	ErrNoInstance = errors.New("no such instance")
	ErrNotReady   = errors.New("not ready")
	ErrDraining   = errors.New("draining")
	// ErrAsleep: it is not started, or does not answer yet since it woke. Local.Wake
	// starts it.
	ErrAsleep = errors.New("asleep")
)

// StartError is why an instance that would start with a request does not: its last
// starts failed, or its worker has no room for it. It is ErrNotReady. A request that
// finds no other instance is answered with it, so it says nothing of how things are
// arranged on the worker.
type StartError struct {
	// Why in words for the client.
	Why string
	// Again is when it is tried again at the earliest; 0 where nobody knows.
	Again time.Duration
	// Full: nothing failed, its worker has no room.
	Full bool
}

// Error implements error.
func (e *StartError) Error() string { return e.Why }

// Unwrap makes it ErrNotReady.
func (e *StartError) Unwrap() error { return ErrNotReady }

// Local answers for the instances of this worker. The engine implements it. It
// is called from goroutines of the Router only, never from within a call of one
// of its methods, so it may take locks that are held during such a call. It must
// not block.
type Local interface {
	// Target returns the address (host:port) of the named port of an instance of this worker. An
	// error says why no new connection may go there (ErrDraining, ErrNotReady, ErrNoInstance);
	// the peer receives it.
	Target(id wire.InstanceID, port string) (addr string, err error)
	// Wake starts an instance for which Target returns ErrAsleep. It returns at once;
	// LocalChanged and Target report whether the instance is ready. Calling it again is harmless.
	Wake(id wire.InstanceID)
}
