package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// Options of a log. The zero value has the defaults.
type Options struct {
	// SegmentBytes is the size of a segment; 0 is 8 MiB. A batch that is larger has one of its own.
	SegmentBytes int64
}

func (o Options) segmentBytes() int64 {
	if o.SegmentBytes <= 0 {
		return 8 << 20
	}
	return (o.SegmentBytes + sectorSize - 1) / sectorSize * sectorSize
}

// Log is the log of one server, open to be written to. It is not safe for concurrent use.
type Log struct {
	disk     Disk
	options  Options
	server   uint64
	segments []segment
	snaps    []snapName // oldest first
	state    hardState
	last     uint64 // index of the last entry
	changed  uint64 // index of the last change of the members that is not synced as committed; 0: none

	file      File // the last segment
	end, size int64
	chain     uint32

	failed error // a write or a sync has failed: what is on disk is not known any more
}

// Opened tells what Open has found.
type Opened struct {
	Server core.ID
	State  core.State
	// Torn is how many bytes of a batch a power cut had left, which are cut off.
	Torn int64
	// Mended names a damaged snapshot that an older one and the log stand in for; mostly "".
	Mended string
}

// quarantined is a file that says that what is here was damaged and is being set aside.
const quarantined = "quarantined"

// Create makes the log of a server on a disk that has none: one that goes on after a snapshot
// with the content that write gives, or an empty one if head is nil.
func Create(d Disk, server core.ID, head *raftpb.Snapshot, write func(io.Writer) error, o Options) (*Log, core.State, error) {
	names, err := d.List()
	if err != nil {
		return nil, core.State{}, fmt.Errorf("list the files of the log: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, logPrefix) || strings.HasPrefix(name, snapPrefix) {
			return nil, core.State{}, fmt.Errorf("make a log: there is one already: %s", name)
		}
	}
	if err := removeFile(d, quarantined); err != nil {
		return nil, core.State{}, err
	}
	l := &Log{disk: d, options: o, server: uint64(server)}
	first := []batch{l.headBatch(1)}
	st := core.State{HardState: &raftpb.HardState{}}
	if head != nil {
		size, err := ReceiveSnapshot(d, head, write)
		if err != nil {
			return nil, core.State{}, err
		}
		index, term := head.GetMetadata().GetIndex(), head.GetMetadata().GetTerm()
		l.last, l.state = index, hardState{term: term, commit: index}
		first = []batch{l.headBatch(1), {kind: kindReset, state: l.state, base: base{index, term}}}
		st = core.State{HardState: l.state.proto(), Snapshot: head, SnapshotSize: size}
	}
	if err := l.makeSegment(segment{number: 1, first: l.last + 1}, first); err != nil {
		return nil, core.State{}, err
	}
	if head != nil {
		if err := l.adopt(nameOf(head)); err != nil {
			return nil, core.State{}, err
		}
	}
	return l, st, nil
}

func (l *Log) headBatch(number uint64) batch {
	return batch{kind: kindHead, state: l.state, head: head{l.server, number, l.last + 1}}
}

// Open opens the log on a disk. It cuts off what is torn, and changes nothing if it is damaged
// (ErrDamaged) or there is none (ErrNone).
func Open(d Disk, o Options) (*Log, *Opened, error) {
	names, err := d.List()
	if err != nil {
		return nil, nil, fmt.Errorf("list the files of the log: %w", err)
	}
	f, snap, mended, err := examine(d, names)
	if err != nil {
		return nil, nil, err
	}
	l := &Log{
		disk: d, options: o, server: f.server, segments: f.segments, state: f.state, last: f.last(),
		end: f.end, size: f.size, chain: f.chain,
	}
	l.noteChanges(f.entries)
	if err := l.reopen(f.torn); err != nil {
		return nil, nil, err
	}
	if mended != "" {
		if err := removeFile(d, mended); err != nil {
			return nil, nil, err
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == mended })
	}
	if err := l.cleanUp(names, f.base); err != nil {
		return nil, nil, err
	}
	// What was read may be in the system's memory alone, names too: the process before was killed
	// before it had synced it.
	if err := d.SyncDir(); err != nil {
		return nil, nil, fmt.Errorf("sync the directory of the log: %w", err)
	}
	st := core.State{HardState: f.state.proto(), Entries: f.entries}
	if snap != nil {
		st.Snapshot, st.SnapshotSize = snap.head, snap.size
		st.Entries = f.entries[snap.name.index+1-f.first:]
	}
	return l, &Opened{Server: core.ID(f.server), State: st, Torn: f.torn, Mended: mended}, nil
}

func (s hardState) proto() *raftpb.HardState {
	return &raftpb.HardState{Term: &s.term, Vote: &s.vote, Commit: &s.commit}
}

// reopen opens the last segment, without what is torn at its end: what is written next must not
// be followed by it. What it has is synced from here on.
func (l *Log) reopen(torn int64) error {
	name := l.segments[len(l.segments)-1].name()
	f, err := l.disk.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	l.file = f
	if torn > 0 {
		if _, err := f.WriteAt(make([]byte, torn), l.end); err != nil {
			return errors.Join(fmt.Errorf("cut off the torn end of %s: %w", name, err), f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", name, err), f.Close())
	}
	return nil
}

// cleanUp ends or undoes what a crash has interrupted.
func (l *Log) cleanUp(names []string, b base) error {
	for _, name := range names {
		term, index, ok := twoNumbers(name, recvPrefix)
		switch {
		case ok && b.index > 0 && (base{index, term}) == b:
			if err := l.adopt(snapName{term, index}); err != nil {
				return err
			}
		case ok, strings.HasPrefix(name, newPrefix), strings.HasPrefix(name, writePrefix):
			if err := removeFile(l.disk, name); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if term, index, ok := twoNumbers(name, snapPrefix); ok {
			l.addSnapName(snapName{term, index})
		}
	}
	return nil
}

func removeFile(d Disk, name string) error {
	names, err := d.List()
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	for _, n := range names {
		if n != name {
			continue
		}
		if err := d.Remove(name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// Save writes hard state (nil: unchanged) and entries, and returns when they are synced. An
// entry replaces one with its index, and all after that. After an error that wraps ErrNoSpace
// nothing is changed, and the same may be tried again; after any other one the log has to be
// opened anew.
func (l *Log) Save(hs *raftpb.HardState, entries []*raftpb.Entry) error {
	b := batch{kind: kindEntries, state: l.stateOf(hs), entries: entries}
	settles := l.changed > 0 && b.state.commit >= l.changed
	if len(entries) == 0 && b.state.term == l.state.term && b.state.vote == l.state.vote && !settles {
		l.state = b.state // what is committed needs no sync: it goes with the next batch
		return l.failed
	}
	if err := l.write(&b); err != nil {
		return fmt.Errorf("save to the log: %w", err)
	}
	// After a restart this server asks the members for votes that it knows to be committed. In a
	// tier without writes no other batch would tell it of the last change.
	if settles {
		l.changed = 0
	}
	l.noteChanges(entries)
	return nil
}

func (l *Log) noteChanges(entries []*raftpb.Entry) {
	for _, e := range entries {
		l.last = e.GetIndex()
		if e.GetType() != raftpb.EntryNormal && l.last > l.state.commit {
			l.changed = l.last
		}
	}
}

func (l *Log) stateOf(hs *raftpb.HardState) hardState {
	if hs == nil {
		return l.state
	}
	return hardState{hs.GetTerm(), hs.GetVote(), hs.GetCommit()}
}

// Install makes the log go on after a snapshot that ReceiveSnapshot has written. Of the hard
// state it saves term and vote: Save follows with all of it, and with the entries.
func (l *Log) Install(hs *raftpb.HardState, head *raftpb.Snapshot) error {
	name := nameOf(head)
	st := l.stateOf(hs)
	st.commit = name.index // what is committed after it comes with the entries
	if err := l.write(&batch{kind: kindReset, state: st, base: base{name.index, name.term}}); err != nil {
		return fmt.Errorf("go on after a snapshot: %w", err)
	}
	l.last, l.changed = name.index, 0
	if err := l.adopt(name); err != nil {
		l.failed = err
		return err
	}
	return l.prune()
}

// write appends a batch and syncs it, in another segment if there is no room.
func (l *Log) write(b *batch) error {
	if l.failed != nil {
		return l.failed
	}
	b.prev = l.chain
	content := b.encode()
	if l.end+int64(len(content))+sectorSize > l.size { // a sector stays for the seal
		if err := l.cut(int64(len(content))); err != nil {
			return err
		}
		b.prev = l.chain
		content = b.encode()
	}
	if err := l.put(l.file, l.end, content); err != nil {
		l.failed = err
		return err
	}
	l.end += int64(len(content))
	l.chain, l.state = b.crc, b.state
	return nil
}

func (l *Log) put(f File, at int64, content []byte) error {
	if _, err := f.WriteAt(content, at); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// cut begins another segment, which has room for a batch of so many bytes, and seals the last.
func (l *Log) cut(room int64) error {
	old, end, chain := l.file, l.end, l.chain
	next := segment{number: l.segments[len(l.segments)-1].number + 1, first: l.last + 1}
	head := l.headBatch(next.number)
	head.prev = chain
	if err := l.makeSegmentFor(next, []batch{head}, room); err != nil {
		return err
	}
	seal := batch{kind: kindSeal, prev: chain, state: l.state}
	if err := errors.Join(l.put(old, end, seal.encode()), old.Close()); err != nil {
		l.failed = fmt.Errorf("seal a segment: %w", err)
		return l.failed
	}
	return nil
}

func (l *Log) makeSegment(s segment, batches []batch) error { return l.makeSegmentFor(s, batches, 0) }

// makeSegmentFor makes a segment that begins with batches, and goes on with it.
func (l *Log) makeSegmentFor(s segment, batches []batch, room int64) error {
	var content []byte
	chain := batches[0].prev
	for i := range batches {
		batches[i].prev = chain
		content = append(content, batches[i].encode()...)
		chain = batches[i].crc
	}
	size := max(l.options.segmentBytes(), int64(len(content))+room+sectorSize)
	tmp := newPrefix + s.name()
	f, err := l.disk.Create(tmp, size)
	if err != nil {
		if !errors.Is(err, ErrNoSpace) {
			l.failed = err
		}
		return fmt.Errorf("make a segment of the log: %w", err)
	}
	err = l.put(f, 0, content)
	if err == nil {
		err = l.disk.Rename(tmp, s.name())
	}
	if err == nil {
		err = l.disk.SyncDir()
	}
	if err != nil {
		l.failed = fmt.Errorf("make a segment of the log: %w", errors.Join(err, f.Close()))
		return l.failed
	}
	l.segments = append(l.segments, s)
	l.file, l.end, l.size, l.chain = f, int64(len(content)), size, chain
	return nil
}

// Close closes the log. What was saved is on disk already.
func (l *Log) Close() error {
	if l.failed == nil {
		l.failed = errors.New("the log is closed")
	}
	return l.file.Close()
}

// SetAside makes room for another log on a damaged disk: the files stay, under other names, until
// the next time.
func SetAside(d Disk) error {
	f, err := d.Create(quarantined, 0)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), d.SyncDir())
	}
	if err != nil {
		return fmt.Errorf("set a damaged log aside: %w", err)
	}
	names, err := d.List()
	if err != nil {
		return fmt.Errorf("set a damaged log aside: %w", err)
	}
	again := !slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, logPrefix) || strings.HasPrefix(n, snapPrefix)
	})
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) && !again { // again: what is aside is what was damaged
			err = errors.Join(err, d.Remove(name))
		}
	}
	for _, name := range names {
		if name != quarantined && !strings.HasPrefix(name, asidePrefix) {
			err = errors.Join(err, d.Rename(name, asidePrefix+name))
		}
	}
	if err = errors.Join(err, d.SyncDir()); err != nil {
		return fmt.Errorf("set a damaged log aside: %w", err)
	}
	return nil
}
