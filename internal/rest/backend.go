package rest

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
)

// Backend is what a server needs of a role. What it offers over HTTP are the groups that the
// backend implements beside: Applications, Instances, Workers and so on. Of operations
// whose group it has not, Referrals say where they are served.
//
// Errors that are (or wrap) a *wire.Problem go to the client as they are; all others become
// a 500 whose detail is the error's text.
type Backend interface {
	// Authenticate says who a bearer token is, or why it is refused.
	Authenticate(ctx context.Context, token string) (Principal, error)
	// Locate says where an object is: its namespace and its cluster, as far as it
	// has them. ok is false where there is none of that kind and name. It is asked
	// before an operation for everybody but administrators, and must be quick.
	Locate(kind access.Kind, name string) (o access.Object, ok bool)
	// Ready is nil when the role can serve; else why not.
	Ready() error
	// Record appends to the audit log; durable when it returns. Number and time of
	// the entry are its own.
	Record(ctx context.Context, e apiv1.AuditEntry) error
	// Changes returns what is closed when what the lists show may have changed.
	Changes() <-chan struct{}
}

// Principal is who asks, and for how long that is so.
type Principal struct {
	access.Who
	// Ended is closed when the caller may no longer do all of what Who says;
	// requests that are still open then are cut off. Nil: that does not happen.
	Ended <-chan struct{}
	// Left is how long it will be so at most; 0 is without end.
	Left time.Duration
}

// Caller is the name of who asked for the operation of ctx; "" if nobody is known.
func Caller(ctx context.Context) string { return access.From(ctx).Name }

// Subjecter is an input that says itself what it is about, and what is to be noted of it
// in the audit log. What it says must not be secret.
type Subjecter interface{ Subject() (on, detail string) }

// Rehearsed is an input that may ask to change nothing.
type Rehearsed interface{ Rehearsal() bool }

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
