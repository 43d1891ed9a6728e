package enroll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// refusedFile records that the tier above has rejected this node, so that the next start with a
// token joins again instead of using the identity.
const refusedFile = "refused.json"

type refusal struct {
	V       int          `json:"v"`
	Problem wire.Problem `json:"problem"`
	// KeyHash of the key that was refused: with another key it means nothing.
	KeyHash string `json:"key_hash"`
}

// anotherKey: the key that was refused can never be used again.
func (r refusal) anotherKey() bool {
	return r.Problem.Code == rpc.CodeRemoved || r.Problem.Code == rpc.CodeRevoked
}

var refusedKind = &statefile.Kind{What: "that this node was refused", Max: maxJoined, Version: wire.Version}

// MarkRefused notes in dir that the key public (PKIX DER) was refused for good.
func MarkRefused(dir string, p wire.Problem, public []byte) error {
	if err := refusedKind.Write(filepath.Join(dir, refusedFile),
		refusal{V: wire.Version, Problem: p, KeyHash: pki.KeyHash(public)}); err != nil {
		return fmt.Errorf("noting that this node was refused: %w", err)
	}
	return nil
}

// refused reads the record. One about another key than the present one is void.
func (n Node) refused() (r refusal, marked bool, err error) {
	_, err = refusedKind.Read(filepath.Join(n.Dir, refusedFile), &r)
	if errors.Is(err, os.ErrNotExist) {
		return r, false, nil
	}
	if statefile.Damaged(err) {
		return refusal{}, false, nil // the tier above will say it again
	}
	if err != nil {
		return r, false, fmt.Errorf("reading whether this node was refused: %w", err)
	}
	public, err := n.Public(n.Dir)
	if err != nil {
		return r, false, err
	}
	return r, r.KeyHash == pki.KeyHash(public), nil
}

// rejoinDir holds the new identity of a node that joins again with another key,
// until it is complete and takes the place of the old one.
const rejoinDir = "rejoin"

// rejoin joins again, with another key if the old one was revoked.
func (n Node) rejoin(ctx context.Context, mark refusal) (rpc.JoinReply, error) {
	fresh := n
	if mark.anotherKey() {
		fresh.Dir = filepath.Join(n.Dir, rejoinDir)
		// What an attempt before has left, with its key: its token may be good for
		// that key alone.
		if err := atomicfile.MkdirAll(fresh.Dir, 0o700); err != nil {
			return rpc.JoinReply{}, fmt.Errorf("preparing to join again: %w", err)
		}
	}
	reply, err := fresh.join(ctx)
	if err == nil {
		err = n.finishSwap()
	}
	if err == nil {
		err = os.Remove(filepath.Join(n.Dir, refusedFile))
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it has just been learnt
	}
	return reply, err
}

// finishSwap puts a complete new identity in the place of the old one. A crash at
// any point of it is made good by the next call.
func (n Node) finishSwap() error {
	dir := filepath.Join(n.Dir, rejoinDir)
	if _, err := os.Stat(filepath.Join(dir, joinedFile)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("taking over the new identity: %w", err)
	}
	for _, e := range entries {
		if e.Name() != joinedFile {
			err = errors.Join(err, os.Rename(filepath.Join(dir, e.Name()), filepath.Join(n.Dir, e.Name())))
		}
	}
	if err == nil {
		err = atomicfile.SyncDir(n.Dir)
	}
	if err == nil { // last: as long as it is there, all this is done again
		err = os.Rename(filepath.Join(dir, joinedFile), filepath.Join(n.Dir, joinedFile))
	}
	if err == nil {
		err = errors.Join(os.Remove(dir), atomicfile.SyncDir(n.Dir))
	}
	if err != nil {
		return fmt.Errorf("taking over the new identity: %w", err)
	}
	return nil
}
