package keeper

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
)

// Tx is a transaction of a tier: what it decided, on top of a table.Tx.
type Tx interface {
	// Encode returns the changes as groups of operations. The error names records that
	// cannot be encoded, which are left as they are stored.
	Encode() ([][]bus.Op, error)
	// Done makes the changes part of the state in memory.
	Done()
}

// Keeper stores transactions. It has the lock of the state that they change: all of its other
// methods are called within Do or Try.
type Keeper struct {
	Store bus.Store
	mu    sync.Mutex // held over commits, so that what is read is always stored
	stale bool
}

// Do runs f while nobody else uses the state.
func (k *Keeper) Do(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Try is Do, unless somebody uses the state: then it returns false at once.
func (k *Keeper) Try(f func()) bool {
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	f()
	return true
}

// Stale says whether what is in memory may differ from what is stored.
func (k *Keeper) Stale() bool { return k.stale }

// Loaded notes that what is in memory was read from the store.
func (k *Keeper) Loaded() { k.stale = false }

// Wrote notes how a write beside the keeper's own ended, and returns its error.
func (k *Keeper) Wrote(err error) error {
	if err != nil {
		k.stale = true
	}
	return err
}

// TooLargeError is the error of Whole for what does not fit into one commit.
type TooLargeError struct{ Ops, Bytes int }

// Error says how much it is.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%d records of %d bytes in all are too much for one write", e.Ops, e.Bytes)
}

// Fits reports whether groups fit into one commit, as Whole needs it.
func Fits(groups [][]bus.Op) error {
	e := &TooLargeError{}
	large := false
	for _, g := range groups {
		for _, op := range g {
			e.Ops++
			e.Bytes += len(op.Key) + len(op.Value)
			large = large || len(op.Value) > bus.MaxValueBytes
		}
	}
	if large || e.Bytes > bus.MaxCommitBytes || e.Ops > bus.MaxCommitOps {
		return e
	}
	return nil
}

// Whole stores a transaction in one commit, with operations beside it, such as the use of a
// token. If anything of it cannot be encoded or stored, nothing is.
func (k *Keeper) Whole(ctx context.Context, tx Tx, also ...bus.Op) error {
	groups, err := tx.Encode()
	if err != nil {
		return err
	}
	if len(also) > 0 {
		groups = append([][]bus.Op{also}, groups...)
	}
	if err := Fits(groups); err != nil {
		return err
	}
	if len(groups) > 0 {
		if _, err := k.Store.Commit(ctx, slices.Concat(groups...)...); k.Wrote(err) != nil {
			return err
		}
	}
	tx.Done()
	return nil
}

// Parts stores a transaction in as few commits as it takes. left are the records that cannot
// be encoded and stay as they are stored; stored is false if there was nothing to store.
func (k *Keeper) Parts(ctx context.Context, tx Tx) (stored bool, left, err error) {
	groups, left := tx.Encode()
	if len(groups) == 0 {
		return false, left, nil
	}
	if err := k.Wrote(records.Commit(ctx, k.Store, groups)); err != nil {
		return false, left, err
	}
	tx.Done()
	return true, left, nil
}
