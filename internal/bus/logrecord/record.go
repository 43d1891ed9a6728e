package logrecord

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// recordVersion is the first byte of every record.
const recordVersion = 1

// Record is what one message of the log holds: a Commit, entries that were
// moved there when the log was cleaned, or none.
type Record struct {
	// Floor is the revision of the newest tombstone that is no longer kept.
	Floor uint64
	// Timeline is there in the first record of an era, and where it was moved.
	Timeline wire.Timeline
	Entries  []bus.Entry
}

// Encode writes: version, floor, length and JSON of the timeline (0 if none),
// number of entries, and for each a byte (1: deleted), revision, key, value.
// Numbers are uvarints, texts have their length before them.
func (c Record) Encode() ([]byte, error) {
	var timeline []byte
	if c.Timeline != nil {
		var err error
		if timeline, err = json.Marshal(c.Timeline); err != nil {
			return nil, fmt.Errorf("encode timeline: %w", err)
		}
	}
	size := 32 + len(timeline)
	for _, e := range c.Entries {
		size += len(e.Key) + len(e.Value) + bus.EntryOverhead
	}
	b := append(make([]byte, 0, size), recordVersion)
	b = binary.AppendUvarint(b, c.Floor)
	b = appendText(b, timeline)
	b = binary.AppendUvarint(b, uint64(len(c.Entries)))
	for _, e := range c.Entries {
		var flags byte
		if e.Deleted {
			flags = 1
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, e.Rev)
		b = appendText(b, []byte(e.Key))
		b = appendText(b, e.Value)
	}
	return b, nil
}

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// errDamaged is in the error of a record that cannot be read.
var errDamaged = errors.New("record is damaged")

// Decode reads a record. Values are copies: one that lives long must not
// keep a whole large record.
func Decode(b []byte) (Record, error) {
	if len(b) == 0 || b[0] != recordVersion {
		return Record{}, fmt.Errorf("%w or written by a newer version", errDamaged)
	}
	r := reader{rest: b[1:]}
	c := Record{Floor: r.number()}
	if timeline := r.text(); len(timeline) > 0 && !r.bad {
		if err := json.Unmarshal(timeline, &c.Timeline); err != nil {
			return Record{}, fmt.Errorf("%w: timeline: %w", errDamaged, err)
		}
	}
	n := r.number()
	if n > uint64(len(r.rest)) {
		return Record{}, errDamaged
	}
	c.Entries = make([]bus.Entry, 0, n)
	for range n {
		e := bus.Entry{Deleted: r.byte() == 1, Rev: r.number(), Key: string(r.text())}
		if value := r.text(); !e.Deleted {
			e.Value = append([]byte{}, value...)
		}
		c.Entries = append(c.Entries, e)
	}
	if r.bad || len(r.rest) > 0 {
		return Record{}, errDamaged
	}
	return c, nil
}

// reader takes values from the front; bad says that there were too few bytes.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *reader) text() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	v := r.rest[:n]
	r.rest = r.rest[n:]
	return v
}
