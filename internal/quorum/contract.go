package quorum

import (
	"context"
	"errors"
	"io"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// Log is the log of a tier as one of its servers has it.
type Log interface {
	// Lead waits until this server leads and has applied everything from before its term.
	Lead(ctx context.Context) (Leadership, error)
	Status() Status
	// Change changes the members, several at once through a joint configuration. Only a leader
	// does; it returns when the change is applied here.
	Change(ctx context.Context, changes ...core.Change) error
	// Transfer hands the leadership to a voter and returns when this server has lost it.
	Transfer(ctx context.Context, to core.ID) error
	// Close ends this server's part. What was acknowledged is on disk already.
	Close() error
}

// Leadership is one term of one leader.
type Leadership struct {
	// Term is higher than that of every leadership before.
	Term uint64
	// Lost is closed when the leadership has ended, or may have.
	Lost <-chan struct{}
	// Append adds a record. Nil: it is committed, and applied here. ErrNotLeader: it was not
	// written and never will be. ErrUnknown: it may be there, or come to be there. One call at a
	// time.
	Append func(ctx context.Context, record []byte) error
	// Verify returns nil if this server was still the leader at a moment after the call began.
	// Calls at the same time share one round to a majority.
	Verify func(ctx context.Context) error
}

// Machine is the state that the log is the history of. All calls come from one goroutine.
type Machine interface {
	// Apply applies the next committed record. Indexes rise, with gaps. An error says that this
	// server's state is not the one that the record continues; the server quarantines itself.
	Apply(index uint64, record []byte) error
	// Snapshot returns what writes the state of this moment. It is called once, and may run
	// while further records are applied.
	Snapshot() (write func(io.Writer) error)
	// Restore replaces the state by what such a write has written.
	Restore(r io.Reader) error
}

// Status of the server.
type Status struct {
	core.Status
	Members []Member
	// Quarantine says why this server neither votes nor acknowledges; "" mostly.
	Quarantine string
}

// Member of a tier.
type Member struct {
	ID    core.ID
	Voter bool // else a learner
	// Match is the last entry that it has acknowledged; known at the leader alone.
	Match uint64
}

// Errors of a Log.
var (
	// ErrNotLeader says that this server does not lead, and that nothing was written.
	ErrNotLeader = core.ErrNotLeader
	// ErrUnknown says that a record may have been written, or not.
	ErrUnknown = errors.New("it is not known whether the record was written")
	// ErrQuarantined says that this server's disk or state is not what it has promised.
	ErrQuarantined = errors.New("this server is quarantined")
)
