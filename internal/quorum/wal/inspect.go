package wal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// Report is what is on a disk.
type Report struct {
	Server         core.ID
	Term, Index    uint64 // of the last entry
	Commit         uint64 // that the log knows of
	Snapshot       uint64 // index of the newest that is whole; 0: none
	Segments       int
	Torn           int64  // bytes that Open would cut off
	Mended         string // a damaged snapshot that is not needed
	Damage         error  // nil: none
	SetAside       int    // files of a damaged log
	HardTerm, Vote uint64
}

// Inspect reads everything and changes nothing. It may be called for a log that is in use, and
// then sees what is being written as torn. Without a log it returns ErrNone.
func Inspect(d Disk) (Report, error) {
	names, err := d.List()
	if err != nil {
		return Report{}, fmt.Errorf("list the files of the log: %w", err)
	}
	var r Report
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) {
			r.SetAside++
		}
	}
	f, snap, mended, err := examine(d, names)
	if errors.Is(err, ErrDamaged) {
		r.Damage = err
	} else if err != nil {
		return r, err
	}
	if f == nil {
		return r, nil
	}
	r.Server, r.Segments, r.Torn, r.Mended = core.ID(f.server), len(f.segments), f.torn, mended
	r.Index, r.Commit, r.HardTerm, r.Vote = f.last(), f.state.commit, f.state.term, f.state.vote
	if snap != nil {
		r.Snapshot, r.Term = snap.name.index, snap.name.term
	}
	if n := len(f.entries); n > 0 {
		r.Term = f.entries[n-1].GetTerm()
	}
	return r, nil
}
