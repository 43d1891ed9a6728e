package failure

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// Blame says what a failed try tells about whom.
type Blame int

// Whom a failed try speaks against.
const (
	BlameSelf     Blame = iota // nothing about the other side
	BlameEndpoint              // this endpoint
	BlameWorker                // everything behind the worker's address
)

// OpenError is a failed try to open a connection to one endpoint. No byte of
// the client was sent.
type OpenError struct {
	Blame  Blame
	Target string // for people
	Err    error
	// NotNow: its worker says that the instance is not there, not ready or
	// draining; nothing is broken, the route is behind.
	NotNow bool
	Began  time.Time // when its worker was first tried; zero where it was not
}

// Error implements error.
func (e *OpenError) Error() string { return e.Target + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// NotNow says whether err is an OpenError whose NotNow is true.
func NotNow(err error) bool {
	var oe *OpenError
	return errors.As(err, &oe) && oe.NotNow
}

// NotNowError is an answer that makes OpenError.NotNow true.
type NotNowError struct{ Err error }

// Error implements error.
func (e NotNowError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e NotNowError) Unwrap() error { return e.Err }

// BlameFor takes the blame from the other side where the caller gave up: a router that is
// in trouble itself would otherwise eject the whole world.
func BlameFor(ctx context.Context, b Blame) Blame {
	if errors.Is(ctx.Err(), context.Canceled) {
		return BlameSelf
	}
	return b
}

// OutOfResources is true for errors that come from this machine's limits.
func OutOfResources(err error) bool {
	for _, limit := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EADDRNOTAVAIL} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}

// ErrNoEndpoint is the end of open where nothing could be tried.
var ErrNoEndpoint = errors.New("no endpoint is ready")

// Why a router lets no request through to an instance, as it tells another router.
// Nothing of the request was sent to the instance.
const (
	RefusedFull     = "full"
	RefusedLate     = "late"
	RefusedDraining = "draining"
	RefusedNotReady = "not-ready"
	RefusedGone     = "no-instance"
	// An instance that would start with the request does not, see StartError.
	RefusedStart = "not-started"
	RefusedRoom  = "no-room"
	// It was let through, and the instance broke the connection.
	RefusedBroken = "broken"
	// The instance took no connection.
	RefusedConnect = "no-connection"
)

// RefusedError is that a request was not let through.
type RefusedError struct {
	Why string // one of the above
	Err error
	// Again is when to ask again, 0 where nobody knows.
	Again time.Duration
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// BrokenError is a connection that broke at the other worker.
type BrokenError struct{ Err error }

// Error implements error.
func (e *BrokenError) Error() string { return e.Err.Error() }

// Unwrap makes it one of brokenConn.
func (e *BrokenError) Unwrap() error { return io.ErrUnexpectedEOF }

// ErrEnded: the other side had closed a kept connection before it was used.
var ErrEnded = errors.New("the kept connection had ended")

// UnsentError is a failed try that sent no byte.
type UnsentError struct{ Err error }

// Error implements error.
func (e *UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnsentError) Unwrap() error { return e.Err }

// BrokenConn is true for errors of a connection, not of what came over it.
func BrokenConn(err error) bool {
	for _, b := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT} {
		if errors.Is(err, b) {
			return true
		}
	}
	return false
}

// ErrAbandoned is why a request was taken back from an endpoint.
var ErrAbandoned = errors.New("its worker cannot be reached")

// Abandoned says whether a request was taken back because its worker is gone.
func Abandoned(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrAbandoned) }

// ErrSlowWorker is why a request that had no connection yet was taken back.
var ErrSlowWorker = errors.New("its worker is slow to take a connection")

// ErrLate is that the deadline of a request has come before an answer.
var ErrLate = errors.New("no answer in time")

// ErrClosed: the router opens nothing, since it is closed.
var ErrClosed = errors.New("the router is closed")
