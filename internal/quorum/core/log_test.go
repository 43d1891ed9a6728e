package core

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

func entryOf(term, index uint64) *raftpb.Entry {
	return &raftpb.Entry{Term: &term, Index: &index, Type: raftpb.EntryNormal.Enum(), Data: make([]byte, 4)}
}

func TestMemLog(t *testing.T) {
	l := newMemLog(State{})
	for i := uint64(1); i <= 10; i++ {
		if err := l.append([]*raftpb.Entry{entryOf(1, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.append([]*raftpb.Entry{entryOf(1, 12)}); err == nil {
		t.Error("a gap")
	}
	lent, err := l.Entries(3, 11, 1<<20)
	if err != nil || len(lent) != 8 {
		t.Fatalf("%d entries, %v", len(lent), err)
	}
	if err := l.append([]*raftpb.Entry{entryOf(2, 8), entryOf(2, 9)}); err != nil {
		t.Fatal(err)
	}
	if term, err := l.Term(9); err != nil || term != 2 || l.last() != 9 || lent[6].GetTerm() != 1 {
		t.Errorf("term %d, %v, last %d, lent %d", term, err, l.last(), lent[6].GetTerm())
	}
	if l.bytes != 9*size(entryOf(1, 1)) {
		t.Errorf("%d bytes", l.bytes)
	}
	if es, err := l.Entries(1, 10, 1); err != nil || len(es) != 1 {
		t.Errorf("at least one entry: %d, %v", len(es), err)
	}
	l.compact(5, 0)
	if first, _ := l.FirstIndex(); first != 6 {
		t.Errorf("the first is %d", first)
	}
	if _, err := l.Entries(5, 7, 1<<20); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("compacted: %v", err)
	}
	if term, err := l.Term(5); err != nil || term != 1 {
		t.Errorf("the term before the first: %d, %v", term, err)
	}
	if _, err := l.Term(4); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("compacted: %v", err)
	}
	if _, err := l.Term(10); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("beyond the end: %v", err)
	}
	if _, err := l.Snapshot(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) || !l.wanted {
		t.Errorf("a snapshot that is too old: %v", err)
	}
	if err := l.append([]*raftpb.Entry{entryOf(1, 4), entryOf(1, 5), entryOf(2, 6)}); err != nil || l.last() != 6 {
		t.Errorf("entries that were compacted meanwhile: %v, last %d", err, l.last())
	}
	index, term := uint64(20), uint64(3)
	l.install(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term}})
	if l.last() != 20 || l.bytes != 0 {
		t.Errorf("after a snapshot: last %d, %d bytes", l.last(), l.bytes)
	}
	if err := l.append([]*raftpb.Entry{entryOf(3, 21)}); err != nil || l.last() != 21 {
		t.Errorf("after a snapshot: %v, last %d", err, l.last())
	}
}
