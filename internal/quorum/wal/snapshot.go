package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// snapName is what the name of a snapshot says.
type snapName struct{ term, index uint64 }

func (n snapName) file(prefix string) string {
	return fmt.Sprintf("%s%016x-%016x", prefix, n.term, n.index)
}

func nameOf(head *raftpb.Snapshot) snapName {
	return snapName{head.GetMetadata().GetTerm(), head.GetMetadata().GetIndex()}
}

const (
	snapMagic = "vergesn1"
	blockSize = 64 << 10 // of content, but for the last one
)

// WriteSnapshot writes a snapshot of this server's own state machine and reads it back. Its
// index has to be in the log. It may run beside Save; Log.Took follows it.
func WriteSnapshot(d Disk, head *raftpb.Snapshot, write func(io.Writer) error) (size int, err error) {
	return writeSnapshot(d, head, write, snapPrefix)
}

// ReceiveSnapshot writes a snapshot of the leader. Log.Install makes it count. It may run beside
// Save.
func ReceiveSnapshot(d Disk, head *raftpb.Snapshot, write func(io.Writer) error) (size int, err error) {
	return writeSnapshot(d, head, write, recvPrefix)
}

func writeSnapshot(d Disk, head *raftpb.Snapshot, write func(io.Writer) error, prefix string) (int, error) {
	name := nameOf(head)
	failed := func(err error) (int, error) { return 0, fmt.Errorf("write snapshot %d: %w", name.index, err) }
	first, err := proto.Marshal(head)
	if err != nil {
		return failed(err)
	}
	tmp := name.file(writePrefix)
	f, err := d.Create(tmp, 0)
	if err != nil {
		return failed(err)
	}
	w := &blockWriter{f: f}
	err = w.begin(first)
	if err == nil {
		err = write(w)
	}
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return failed(errors.Join(err, d.Remove(tmp)))
	}
	// What is read back is what the system has, not what was meant.
	if _, _, err := verifySnapshot(d, tmp, name); err != nil {
		return failed(errors.Join(err, d.Remove(tmp)))
	}
	if err := d.Rename(tmp, name.file(prefix)); err != nil {
		return failed(err)
	}
	if err := d.SyncDir(); err != nil {
		return failed(err)
	}
	return w.content, nil
}

// blockWriter writes blocks: length, CRC that continues the one before, data. A block of length
// 0 is the last; its data is the length of the content.
type blockWriter struct {
	f       File
	at      int64
	crc     uint32
	buf     []byte
	content int
}

func (w *blockWriter) begin(head []byte) error {
	if _, err := w.f.WriteAt([]byte(snapMagic), 0); err != nil {
		return err
	}
	w.at = int64(len(snapMagic))
	return w.block(head, uint32(len(head))) //nolint:gosec // some hundred bytes
}

func (w *blockWriter) block(data []byte, length uint32) error {
	w.crc = crc32.Update(w.crc, castagnoli, data)
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, 8+len(data)), length)
	out = binary.LittleEndian.AppendUint32(out, w.crc)
	out = append(out, data...)
	n, err := w.f.WriteAt(out, w.at)
	w.at += int64(n)
	return err
}

// Write implements io.Writer.
func (w *blockWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), blockSize-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		if p = p[n:]; len(w.buf) == blockSize {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	w.content += total
	return total, nil
}

func (w *blockWriter) flush() error {
	err := w.block(w.buf, uint32(len(w.buf))) //nolint:gosec // at most blockSize
	w.buf = w.buf[:0]
	return err
}

func (w *blockWriter) finish() error {
	if len(w.buf) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.block(binary.LittleEndian.AppendUint64(nil, uint64(w.content)), 0) //nolint:gosec // not negative
}

// SnapshotReader reads the content of a snapshot. A damaged one ends with an error that is
// ErrDamaged.
type SnapshotReader struct {
	Head *raftpb.Snapshot

	name string
	f    File
	size int64
	at   int64
	crc  uint32
	rest []byte
	read uint64
	done bool
}

// OpenSnapshot opens one by its head.
func OpenSnapshot(d Disk, head *raftpb.Snapshot) (*SnapshotReader, error) {
	name := nameOf(head)
	r, err := openSnapshot(d, name.file(snapPrefix), name)
	if err != nil {
		// One from the leader, before Install.
		if r, err2 := openSnapshot(d, name.file(recvPrefix), name); err2 == nil {
			return r, nil
		}
	}
	return r, err
}

func openSnapshot(d Disk, file string, name snapName) (*SnapshotReader, error) {
	f, err := d.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	r := &SnapshotReader{name: file, f: f, Head: &raftpb.Snapshot{}}
	if err := r.begin(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *SnapshotReader) begin(name snapName) (err error) {
	if r.size, err = r.f.Size(); err != nil {
		return fmt.Errorf("size of %s: %w", r.name, err)
	}
	magic := make([]byte, len(snapMagic))
	if _, err := r.f.ReadAt(magic, 0); err != nil || string(magic) != snapMagic {
		return r.damage("it does not begin as a snapshot")
	}
	r.at = int64(len(magic))
	data, err := r.block()
	if err != nil {
		return err
	}
	if proto.Unmarshal(data, r.Head) != nil || nameOf(r.Head) != name {
		return r.damage("it is another snapshot")
	}
	return nil
}

func (r *SnapshotReader) damage(what string) error { return &DamageError{r.name, r.at, what} }

// block reads the next one; nil after the last.
func (r *SnapshotReader) block() ([]byte, error) {
	var h [8]byte
	if _, err := r.f.ReadAt(h[:], r.at); err != nil {
		return nil, r.damage("it is too short")
	}
	length, last := int64(binary.LittleEndian.Uint32(h[:])), false
	if length == 0 {
		length, last = 8, true
	}
	if r.at+8+length > r.size || length > 1<<20 {
		return nil, r.damage("the length of a block is wrong")
	}
	data := make([]byte, length)
	if _, err := r.f.ReadAt(data, r.at+8); err != nil {
		return nil, r.damage(err.Error())
	}
	r.crc = crc32.Update(r.crc, castagnoli, data)
	if r.crc != binary.LittleEndian.Uint32(h[4:]) {
		return nil, r.damage("the CRC of a block is wrong")
	}
	r.at += 8 + length
	if !last {
		return data, nil
	}
	if binary.LittleEndian.Uint64(data) != r.read || r.at != r.size {
		return nil, r.damage("its length is wrong")
	}
	r.done = true
	return nil, nil
}

// Read implements io.Reader.
func (r *SnapshotReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.done {
			return 0, io.EOF
		}
		data, err := r.block()
		if err != nil {
			return 0, err
		}
		r.read += uint64(len(data))
		r.rest = data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *SnapshotReader) Close() error { return r.f.Close() }

var _ io.ReadCloser = (*SnapshotReader)(nil)

// verifySnapshot reads all of one.
func verifySnapshot(d Disk, file string, name snapName) (head *raftpb.Snapshot, size int, err error) {
	r, err := openSnapshot(d, file, name)
	if err != nil {
		return nil, 0, err
	}
	n, err := io.Copy(io.Discard, r)
	return r.Head, int(n), errors.Join(err, r.Close())
}

// snapFound is a snapshot that was read and is right.
type snapFound struct {
	name snapName
	head *raftpb.Snapshot
	size int
}

// examine reads everything, without changing anything. Mended is the name of a damaged snapshot
// that is not needed.
func examine(d Disk, names []string) (f *found, snap *snapFound, mended string, err error) {
	if slices.Contains(names, quarantined) {
		return nil, nil, "", &DamageError{quarantined, 0, "what was here was damaged and is being set aside"}
	}
	var snaps []snapName
	for _, name := range names {
		if term, index, ok := twoNumbers(name, snapPrefix); ok {
			snaps = append(snaps, snapName{term, index})
		}
	}
	f, err = scan(d, names)
	if errors.Is(err, ErrNone) && len(snaps) > 0 {
		err = &DamageError{snaps[0].file(snapPrefix), 0, "it has no log"}
	}
	if err != nil {
		return nil, nil, "", err
	}
	prefix := map[snapName]string{}
	for _, s := range snaps {
		prefix[s] = snapPrefix
	}
	if s := (snapName{f.base.term, f.base.index}); s.index > 0 && slices.Contains(names, s.file(recvPrefix)) {
		snaps, prefix[s] = append(snaps, s), recvPrefix
	}
	slices.SortFunc(snaps, func(a, b snapName) int { return -compareNames(a, b) })
	snap, mended, err = f.choose(d, snaps, prefix)
	if err == nil {
		err = f.reconcile(snap)
	}
	return f, snap, mended, err
}

func compareNames(a, b snapName) int { return strings.Compare(a.file(""), b.file("")) }

// choose takes the newest snapshot that is whole. snaps begin with the newest.
func (f *found) choose(d Disk, snaps []snapName, prefix map[snapName]string) (*snapFound, string, error) {
	var first error
	mended := ""
	for _, s := range snaps {
		file := s.file(prefix[s])
		if s.index > f.last() {
			return nil, "", &DamageError{file, 0, fmt.Sprintf("the log ends at entry %d, before this snapshot of it", f.last())}
		}
		if s.index < f.base.index || s.index+1 < f.first {
			break // the log does not go on from there
		}
		head, size, err := verifySnapshot(d, file, s)
		if err == nil {
			return &snapFound{s, head, size}, mended, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, "", err
		}
		if first == nil {
			first, mended = err, file
		}
	}
	if first == nil && (f.first > 1 || f.base.index > 0) {
		first = &DamageError{f.segments[0].name(), 0, fmt.Sprintf("it begins with entry %d, and there is no snapshot before it", f.first)}
	}
	return nil, "", first
}

// reconcile compares what log, snapshot and hard state say.
func (f *found) reconcile(snap *snapFound) error {
	tail := f.segments[len(f.segments)-1].name()
	if f.state.commit > f.last() {
		return &DamageError{tail, f.end, fmt.Sprintf("entry %d was committed, and the log ends at %d", f.state.commit, f.last())}
	}
	if snap == nil {
		return nil
	}
	f.state.commit = max(f.state.commit, snap.name.index)
	f.state.term = max(f.state.term, snap.name.term)
	if i := snap.name.index; i >= f.first && f.entries[i-f.first].GetTerm() != snap.name.term {
		return &DamageError{tail, f.end, fmt.Sprintf("entry %d is of another term than the snapshot of it", i)}
	}
	return nil
}

// Took says that WriteSnapshot has written one. What it makes superfluous is removed.
func (l *Log) Took(head *raftpb.Snapshot) error {
	if l.failed != nil {
		return l.failed
	}
	l.addSnapName(nameOf(head))
	return l.prune()
}

// adopt makes a received snapshot one of the log's.
func (l *Log) adopt(name snapName) error {
	if slices.Contains(l.snaps, name) {
		return nil // what came after it did not succeed, and is tried again
	}
	if err := l.disk.Rename(name.file(recvPrefix), name.file(snapPrefix)); err != nil {
		return fmt.Errorf("adopt a snapshot: %w", err)
	}
	if err := l.disk.SyncDir(); err != nil {
		return fmt.Errorf("adopt a snapshot: %w", err)
	}
	// Those of before are of a log that is void.
	l.addSnapName(name)
	return nil
}

func (l *Log) addSnapName(name snapName) {
	if !slices.Contains(l.snaps, name) {
		l.snaps = append(l.snaps, name)
		slices.SortFunc(l.snaps, compareNames)
	}
}

// prune keeps two snapshots, and the log from the older one on. Oldest go first, so that a
// crash leaves no gap.
func (l *Log) prune() error {
	for len(l.snaps) > 2 {
		if err := l.disk.Remove(l.snaps[0].file(snapPrefix)); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
		l.snaps = l.snaps[1:]
	}
	if len(l.snaps) == 0 {
		return nil
	}
	for len(l.segments) > 1 && l.segments[1].first <= l.snaps[0].index+1 {
		// One after the other: a crash must not leave an older one without a newer one.
		if err := l.disk.SyncDir(); err != nil {
			return fmt.Errorf("remove old segments: %w", err)
		}
		if err := l.disk.Remove(l.segments[0].name()); err != nil {
			return fmt.Errorf("remove old segments: %w", err)
		}
		l.segments = l.segments[1:]
	}
	return nil
}
