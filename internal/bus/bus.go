package bus

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/wire"
)

// Errors that callers branch on.
var (
	// ErrNotFound: the key has no value (never had, or was deleted).
	ErrNotFound = errors.New("key not found")
	// ErrConflict: a CompareAndSwap (alone or within a Commit) met another
	// revision than it expected; nothing was written.
	ErrConflict = errors.New("revision conflict")
	// ErrUnknownOutcome: the write may or may not be durable (the store went away
	// while it was under way). Read before writing again: the store finds out what
	// happened before its next operation, which may take seconds.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrClosed: the store or connection was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrNoResponder: nobody serves the subject of a Request now.
	ErrNoResponder = errors.New("the other side is not connected, or not ready to answer yet")
	// ErrForbidden: the credentials do not allow this subject.
	ErrForbidden = errors.New("not permitted by the credentials")
	// ErrDisconnected: the server cannot be reached now; nothing was queued.
	ErrDisconnected = errors.New("not connected")
)

// Entry is the latest value of a key, or its tombstone.
type Entry struct {
	Key string
	// Value is nil where Deleted. It is shared with the store: do not modify it.
	Value   []byte
	Rev     uint64 // of the store; unique per entry
	Deleted bool
}

// Op is one operation of a Commit.
type Op struct {
	Key    string
	Value  []byte
	Delete bool
	// If, when not nil, makes the whole Commit fail with ErrConflict unless the
	// key's current revision is *If (0: the key has no entry, not even a
	// tombstone, or is deleted).
	If *uint64
}

// Put and Del make the ops of a Commit.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// Del deletes key; deleting what is not there is not an error.
func Del(key string) Op { return Op{Key: key, Delete: true} }

// Limits of a store.
const (
	// MaxValueBytes bounds one value.
	MaxValueBytes = 4 << 20
	// MaxCommitOps bounds one Commit; larger sets must be split by the caller who
	// knows what belongs together.
	MaxCommitOps = 1000
	// MaxCommitBytes bounds the keys and values of one Commit together.
	MaxCommitBytes = 16 << 20
	// MaxKeyBytes bounds one key.
	MaxKeyBytes = 512
)

// Store is the durable state of one tier. Keys are made of letters, digits and
// '-', '_', '.', '/', '='; they are not empty, neither start nor end with a dot,
// have no two dots in a row, and are at most MaxKeyBytes long. One process owns a store; its reads are from memory and never block on
// disk. All methods may be called concurrently.
type Store interface {
	// Get returns the value of key, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)
	// List returns the live entries whose key starts with prefix, ordered by key.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Commit applies ops atomically and durably, and returns the store's revision
	// afterwards. An empty Commit returns the current revision. No key may occur
	// twice. Once it was sent it is waited for, whatever becomes of ctx.
	Commit(ctx context.Context, ops ...Op) (uint64, error)
	// Put, CompareAndSwap and Delete are Commits of one Op. CompareAndSwap
	// expects the key at revision rev (0: absent).
	Put(ctx context.Context, key string, value []byte) (uint64, error)
	CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error)
	Delete(ctx context.Context, key string) (uint64, error)
	// Changes returns, ordered by key, the entries and tombstones with one of the
	// prefixes whose revision is greater than since. ok is false where tombstones
	// that old are no longer kept: the caller must take everything (List).
	Changes(ctx context.Context, since uint64, prefixes ...string) (changes []Entry, ok bool, err error)
	// Rev is the revision of the last entry or tombstone under any of the prefixes
	// (none given: of the store).
	Rev(prefixes ...string) uint64
	// Timeline of the store; constant while it is open.
	Timeline() wire.Timeline
	// Watch calls fn after every Commit, in order, with its entries that start
	// with prefix (tombstones included); its first call, made even if there is
	// nothing, has what is there now. Calls come from a goroutine of the watch,
	// soon after the Commit has returned. fn must not block. The returned stop
	// waits for a running fn, so fn must not call it.
	Watch(prefix string, fn func([]Entry)) (stop func())
	// Snapshot is a copy of all that the store holds at one moment.
	Snapshot(ctx context.Context) (Snapshot, error)
	// WriteError is non-nil while the store refuses writes (disk full, corrupt).
	WriteError() error
}

// Msg is a received message.
type Msg struct {
	Subject string
	Data    []byte
	// Respond answers a request; it is an error to call it on a message that asks
	// for no answer.
	Respond func(data []byte) error
	// OneWay: the message asks for no answer.
	OneWay bool
}

// Handler receives messages. Calls for one subscription are sequential and in
// order; a slow handler delays only its own subscription. ctx ends when the
// subscription or its connection closes.
type Handler func(ctx context.Context, m Msg)

// Conn is a connection to a server under one identity. Messages are plain: at
// most once, never on disk.
type Conn interface {
	Publish(subject string, data []byte) error
	// Send publishes and waits until the server's machine has the message, which the
	// server then reads, for whoever listens; nobody is no error. ErrDisconnected, or the
	// end of ctx: it may or may not have been taken.
	Send(ctx context.Context, subject string, data []byte) error
	// Subscribe to a subject; '*' matches one token, a final '>' any rest. After
	// unsubscribe has returned no further call of h begins; one may still run.
	// A subscription outlives a loss of the connection.
	Subscribe(subject string, h Handler) (unsubscribe func(), err error)
	// Request publishes and waits for the first answer, ErrNoResponder,
	// ErrDisconnected (at once if the connection is lost meanwhile), or the end
	// of ctx.
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	// Drained waits until hardly anything that was sent is still on its way to the
	// server's machine, as far as it can be known: what is sent then does not wait behind
	// it. An error is the end of ctx, or ErrDisconnected.
	Drained(ctx context.Context) error
	// Connected reports whether the server can be reached now; Changed is closed
	// at the next change of that.
	Connected() (ok bool, changed <-chan struct{})
	// Close ends the subscriptions, waits for their handlers (so none may call
	// it), and disconnects.
	Close()
}

// EntryOverhead stands for what an entry costs in the log beside key and value.
const EntryOverhead = 16

// NoAnswerWanted is Msg.Respond of a message that asks for no answer.
func NoAnswerWanted([]byte) error {
	return errors.New("respond: the message asks for no answer")
}

// MaxTombstones is how many deletions a store remembers; beyond it the oldest
// are dropped, and Changes from before them answers "take everything".
const MaxTombstones = 10_000
