package core

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// memLog is what raft reads: the newest part of the synced log. The whole of it since the
// last snapshot is on disk; here are the entries not yet applied, and some before them for
// followers that are a little behind.
type memLog struct {
	hard     *raftpb.HardState
	snapshot *raftpb.Snapshot // the newest one on disk; without the content

	prev    mark            // what came before entries
	entries []*raftpb.Entry // consecutive
	bytes   int             // of entries

	wanted  bool   // raft asked for a snapshot that reaches into entries
	members uint64 // index of the last change of the members that is applied
}

// mark names an entry.
type mark struct{ index, term uint64 }

// entryOverhead is what an entry takes in memory beside its data, in bytes.
const entryOverhead = 96

func size(e *raftpb.Entry) int { return len(e.Data) + entryOverhead }

func newMemLog(st State) *memLog {
	l := &memLog{hard: st.HardState, snapshot: raftpb.EnsureSnapshot(st.Snapshot)}
	l.prev = mark{l.snapshot.Metadata.GetIndex(), l.snapshot.Metadata.GetTerm()}
	l.entries = st.Entries
	for _, e := range st.Entries {
		l.bytes += size(e)
	}
	return l
}

func (l *memLog) last() uint64 { return l.prev.index + uint64(len(l.entries)) }

// append adds what was saved; entries that are there already with another term go.
func (l *memLog) append(es []*raftpb.Entry) error {
	for len(es) > 0 && es[0].GetIndex() <= l.prev.index {
		es = es[1:] // a snapshot has overtaken them
	}
	if len(es) == 0 {
		return nil
	}
	at := es[0].GetIndex() - l.prev.index - 1
	if at > uint64(len(l.entries)) {
		return fmt.Errorf("entry %d does not follow %d", es[0].GetIndex(), l.last())
	}
	for _, e := range l.entries[at:] {
		l.bytes -= size(e)
	}
	// Capped: raft may still hold what it was lent.
	l.entries = append(l.entries[:at:at], es...)
	for _, e := range es {
		l.bytes += size(e)
	}
	return nil
}

// install makes a snapshot from the leader the beginning of the log.
func (l *memLog) install(s *raftpb.Snapshot) {
	l.snapshot = s
	l.prev = mark{s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()}
	l.entries, l.bytes = nil, 0
}

// compact forgets entries up to index, as long as more than keep bytes are left.
func (l *memLog) compact(index uint64, keep int) {
	n := 0
	for n < len(l.entries) && l.entries[n].GetIndex() <= index && l.bytes > keep {
		l.bytes -= size(l.entries[n])
		n++
	}
	if n == 0 {
		return
	}
	l.prev = mark{l.entries[n-1].GetIndex(), l.entries[n-1].GetTerm()}
	// The slice is copied once half of its array is free.
	if l.entries = l.entries[n:]; cap(l.entries) > 2*len(l.entries)+64 {
		l.entries = append(make([]*raftpb.Entry, 0, len(l.entries)+64), l.entries...)
	} else {
		// What raft was lent shares the array: it must not be written to.
		l.entries = l.entries[:len(l.entries):len(l.entries)]
	}
}

// InitialState implements raft.Storage.
func (l *memLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return l.hard, raftpb.EnsureConfState(l.snapshot.GetMetadata().GetConfState()), nil
}

// Entries implements raft.Storage.
func (l *memLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo <= l.prev.index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last()+1 || len(l.entries) == 0 {
		return nil, raft.ErrUnavailable
	}
	from, to := lo-l.prev.index-1, hi-l.prev.index-1
	total := uint64(0)
	for n := from; n < to; n++ {
		if total += uint64(size(l.entries[n])); total > maxSize && n > from {
			to = n
			break
		}
	}
	return l.entries[from:to:to], nil
}

// Term implements raft.Storage.
func (l *memLog) Term(i uint64) (uint64, error) {
	switch {
	case i == l.prev.index:
		return l.prev.term, nil
	case i < l.prev.index:
		return 0, raft.ErrCompacted
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.prev.index-1].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (l *memLog) LastIndex() (uint64, error) { return l.last(), nil }

// FirstIndex implements raft.Storage.
func (l *memLog) FirstIndex() (uint64, error) { return l.prev.index + 1, nil }

// Snapshot implements raft.Storage: one after which the follower goes on from entries, and in
// which it is a member: raft ignores any other. Where the newest on disk is too old for that,
// raft asks again later.
func (l *memLog) Snapshot() (*raftpb.Snapshot, error) {
	if l.snapshot.GetMetadata().GetIndex() < max(l.prev.index, l.members) {
		l.wanted = true
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return l.snapshot, nil
}

var _ raft.Storage = (*memLog)(nil)
