package wal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
)

// segment is a file of the log.
type segment struct {
	number, first uint64 // its number; the index after the last one before it
}

const (
	logPrefix   = "log-"
	snapPrefix  = "snap-"
	newPrefix   = "new-"   // a segment that is being made
	writePrefix = "write-" // a snapshot that is being made
	recvPrefix  = "recv-"  // a snapshot that is complete and that the log does not go on from yet
	asidePrefix = "aside-" // what was there before this server was quarantined
)

func (s segment) name() string { return fmt.Sprintf("%s%016x-%016x", logPrefix, s.number, s.first) }

// twoNumbers reads the rest of a name: two numbers of 16 hexadecimal digits.
func twoNumbers(name, prefix string) (a, b uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || len(rest) != 33 || rest[16] != '-' {
		return 0, 0, false
	}
	a, err := strconv.ParseUint(rest[:16], 16, 64)
	b, err2 := strconv.ParseUint(rest[17:], 16, 64)
	return a, b, err == nil && err2 == nil
}

// found is what the segments hold.
type found struct {
	server   uint64
	segments []segment
	state    hardState
	base     base // of the last reset; 0: none
	entries  []*raftpb.Entry
	first    uint64 // index of entries[0], if there is one

	// Of the last segment:
	end   int64  // where the next batch goes
	torn  int64  // bytes after end that a power cut has left
	size  int64  // of the file
	chain uint32 // CRC of the last batch
}

func (f *found) last() uint64 { return f.first + uint64(len(f.entries)) - 1 }

// DamageError says where a log is damaged. It is ErrDamaged.
type DamageError struct {
	File   string
	Offset int64 // in bytes
	What   string
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s", ErrDamaged, e.File, e.Offset, e.What)
}

// Is makes it ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// scan reads all segments, without changing anything.
func scan(d Disk, names []string) (*found, error) {
	f := &found{first: 1}
	for _, name := range names {
		if number, first, ok := twoNumbers(name, logPrefix); ok {
			f.segments = append(f.segments, segment{number, first})
		}
	}
	if len(f.segments) == 0 {
		return nil, ErrNone
	}
	slices.SortFunc(f.segments, func(a, b segment) int { return strings.Compare(a.name(), b.name()) })
	for i, s := range f.segments {
		if want := f.segments[0].number + uint64(i); s.number != want {
			return nil, &DamageError{s.name(), 0, fmt.Sprintf("segment %d is missing before it", want)}
		}
		content, err := readFile(d, s.name())
		if err != nil {
			return nil, err
		}
		if err := f.readSegment(s, content, i == 0, i == len(f.segments)-1); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func readFile(d Disk, name string) ([]byte, error) {
	file, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	n, err := file.Size()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size of %s: %w", name, err), file.Close())
	}
	content := make([]byte, n)
	if n > 0 {
		_, err = file.ReadAt(content, 0)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		// The system could not read what was written: the same as if it were something else.
		return nil, &DamageError{name, 0, err.Error()}
	}
	return content, nil
}

// readSegment adds the batches of one segment.
func (f *found) readSegment(s segment, content []byte, oldest, last bool) error {
	damage := func(at int, what string) error { return &DamageError{s.name(), int64(at), what} }
	if len(content)%sectorSize != 0 {
		return damage(len(content), "it ends within a sector")
	}
	at, sealed := 0, false
	for at < len(content) && !sealed {
		b, err := decode(content[at:])
		switch {
		case err != nil:
			torn, what := tornBytes(content[at:], b, err)
			if what == "" && torn > 0 && (!last || at == 0) {
				what = "a batch is incomplete although others came after it"
			}
			if what != "" {
				return damage(at, what)
			}
			f.torn = torn
		case at == 0:
			if b.kind != kindHead || b.head.segment != s.number || b.head.first != s.first {
				return damage(0, "it does not begin as this segment")
			}
			if oldest {
				f.server, f.first, f.chain = b.head.server, b.head.first, b.prev
			}
			if b.head.server != f.server {
				return damage(0, "it is of another server")
			}
		}
		if err != nil {
			break
		}
		if b.prev != f.chain {
			return damage(at, "it does not follow the batch before it")
		}
		if sealed = b.kind == kindSeal; !sealed {
			if err := f.add(b); err != nil {
				return damage(at, err.Error())
			}
			f.chain = b.crc
		}
		at += b.sectors * sectorSize
	}
	return f.endSegment(content, at, sealed, last, damage)
}

func (f *found) endSegment(content []byte, at int, sealed, last bool, damage func(int, string) error) error {
	switch {
	case at == 0:
		return damage(0, "it does not begin with a batch")
	case sealed && last:
		return damage(at, "the segment after it is missing")
	case sealed && !allZero(content[at:]):
		return damage(at, "something comes after its end")
	}
	f.end, f.size = int64(at), int64(len(content))
	return nil
}

// add takes over what a batch says.
func (f *found) add(b batch) error {
	f.state.term, f.state.vote = b.state.term, b.state.vote
	f.state.commit = max(f.state.commit, b.state.commit)
	if b.kind == kindReset {
		f.base, f.first, f.entries = b.base, b.base.index+1, nil
	}
	for _, e := range b.entries {
		i := e.GetIndex()
		if i > f.last()+1 || i <= f.base.index {
			return fmt.Errorf("entry %d does not follow %d", i, f.last())
		}
		if i < f.first {
			// It replaces the last ones of a segment that is not needed any more.
			f.first, f.entries = i, nil
		}
		// What stands there belongs to a leader whose entries were not committed.
		f.entries = append(f.entries[:i-f.first], e)
	}
	return nil
}

// tornBytes tells what a power cut has left of a batch, in bytes; 0: nothing was begun. What
// says why it is something else.
func tornBytes(b []byte, header batch, err error) (n int64, what string) {
	sectors := len(b) / sectorSize
	begun := b[0] == markFirst
	if begun && !slices.ContainsFunc([]error{errBody, errEnd}, func(e error) bool { return errors.Is(err, e) }) {
		return 0, err.Error() // the sector is complete, and wrong
	}
	if begun && header.sectors > sectors {
		return 0, errEnd.Error()
	}
	// Sectors of the batch: as many as it says, or as many as there are.
	missing, lastWritten := !begun, 0
	for i := range sectors {
		s := b[i*sectorSize : (i+1)*sectorSize]
		switch {
		case i == 0 && begun:
			lastWritten = 1
		case s[0] == markNext && (!begun || i < header.sectors):
			lastWritten = i + 1
		case s[0] != 0 || !allZero(s):
			return 0, "something that is wrong comes before something else"
		case begun && i < header.sectors:
			missing = true
		}
	}
	if begun && !missing {
		return 0, "all of a batch was written, and it is wrong"
	}
	return int64(lastWritten) * sectorSize, ""
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
