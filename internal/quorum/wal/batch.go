package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/raft/v3/raftpb"
)

const (
	sectorSize = 512
	payload    = sectorSize - 1 // after the mark

	markFirst byte = 0xa5 // of the first sector of a batch
	markNext  byte = 0x5a // of its others
)

// kind of a batch.
type kind byte

const (
	kindEntries kind = 1 + iota // entries, hard state
	kindHead                    // the first of a segment
	kindReset                   // the log goes on after a snapshot; what was before it is void
	kindSeal                    // another segment follows
)

// batch is what is written and synced at once.
type batch struct {
	kind    kind
	prev    uint32 // CRC of the batch before
	state   hardState
	entries []*raftpb.Entry // of kindEntries and kindReset
	head    head            // of kindHead
	base    base            // of kindReset

	sectors int    // that it takes
	crc     uint32 // its own
}

type hardState struct{ term, vote, commit uint64 }

type head struct{ server, segment, first uint64 }

type base struct{ index, term uint64 }

const (
	formatVersion = 1
	headerSize    = 4 + 4 + 4 + 4 + 1 + 1 + 8 + 8 + 8 + 4 // as in encode
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode is the batch as it is written, in whole sectors. It sets b.crc and b.sectors.
//
// The header: its CRC; number of sectors; CRC of the body; CRC of the batch before; version;
// kind; term, vote, commit; number of entries. All integers are little-endian.
func (b *batch) encode() []byte {
	body := b.body()
	b.sectors = (headerSize + len(body) + payload - 1) / payload
	plain := make([]byte, b.sectors*payload)
	copy(plain[headerSize:], body)
	le := binary.LittleEndian
	le.PutUint32(plain[4:], uint32(b.sectors)) //nolint:gosec // a batch is far below 2 TB
	le.PutUint32(plain[8:], crc32.Checksum(plain[headerSize:], castagnoli))
	le.PutUint32(plain[12:], b.prev)
	plain[16], plain[17] = formatVersion, byte(b.kind)
	le.PutUint64(plain[18:], b.state.term)
	le.PutUint64(plain[26:], b.state.vote)
	le.PutUint64(plain[34:], b.state.commit)
	le.PutUint32(plain[42:], uint32(len(b.entries))) //nolint:gosec // entries are in memory
	b.crc = crc32.Checksum(plain[4:headerSize], castagnoli)
	le.PutUint32(plain, b.crc)

	out := make([]byte, b.sectors*sectorSize)
	for i := range b.sectors {
		out[i*sectorSize] = markNext
		copy(out[i*sectorSize+1:(i+1)*sectorSize], plain[i*payload:])
	}
	out[0] = markFirst
	return out
}

func (b *batch) body() []byte {
	var out []byte
	switch b.kind {
	case kindHead:
		out = putUint64s(out, b.head.server, b.head.segment, b.head.first)
	case kindReset:
		out = putUint64s(out, b.base.index, b.base.term)
	case kindEntries, kindSeal:
	}
	n := len(out)
	for _, e := range b.entries {
		n += len(e.Data) + 4*binary.MaxVarintLen32
	}
	if n > cap(out) {
		out = append(make([]byte, 0, n), out...)
	}
	for _, e := range b.entries {
		out = binary.AppendUvarint(out, e.GetIndex())
		out = binary.AppendUvarint(out, e.GetTerm())
		out = append(out, byte(e.GetType()))
		out = binary.AppendUvarint(out, uint64(len(e.Data)))
		out = append(out, e.Data...)
	}
	return out
}

func putUint64s(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// Errors of decode, for the search of what is wrong.
var (
	errNoBatch = errors.New("no batch begins here")
	errHeader  = errors.New("the header of a batch is wrong")
	errBody    = errors.New("a batch is wrong")
	errEnd     = errors.New("a batch reaches beyond the end of the file")
)

// decode reads the batch at the beginning of b. Where the header is right, sectors is set
// even if there is an error.
func decode(b []byte) (out batch, err error) {
	if len(b) < sectorSize || b[0] != markFirst {
		return out, errNoBatch
	}
	h := b[1:]
	le := binary.LittleEndian
	if crc32.Checksum(h[4:headerSize], castagnoli) != le.Uint32(h) || le.Uint32(h[4:]) == 0 {
		return out, errHeader
	}
	out.crc, out.sectors, out.prev = le.Uint32(h), int(le.Uint32(h[4:])), le.Uint32(h[12:])
	out.kind = kind(h[17])
	out.state = hardState{le.Uint64(h[18:]), le.Uint64(h[26:]), le.Uint64(h[34:])}
	if out.sectors > len(b)/sectorSize {
		return out, errEnd
	}
	plain := make([]byte, out.sectors*payload)
	for i := range out.sectors {
		if i > 0 && b[i*sectorSize] != markNext {
			return out, errBody
		}
		copy(plain[i*payload:], b[i*sectorSize+1:(i+1)*sectorSize])
	}
	body := plain[headerSize:]
	if crc32.Checksum(body, castagnoli) != le.Uint32(h[8:]) {
		return out, errBody
	}
	if h[16] != formatVersion {
		return out, fmt.Errorf("it is of version %d, and this program reads version %d", h[16], formatVersion)
	}
	return out, out.parse(body, int(le.Uint32(h[42:])))
}

// parse reads a body whose CRC is right.
func (b *batch) parse(body []byte, entries int) error {
	r := reader{b: body}
	switch b.kind {
	case kindHead:
		b.head = head{r.uint64(), r.uint64(), r.uint64()}
	case kindReset:
		b.base = base{r.uint64(), r.uint64()}
	case kindEntries, kindSeal:
	default:
		return fmt.Errorf("a batch is of kind %d, which this program does not know", b.kind)
	}
	for range entries {
		index, term, typ := r.uvarint(), r.uvarint(), raftpb.EntryType(r.byte())
		data := r.bytes()
		if r.failed {
			break
		}
		b.entries = append(b.entries, &raftpb.Entry{Index: &index, Term: &term, Type: typ.Enum(), Data: data})
	}
	if r.failed {
		return errBody
	}
	return nil
}

// reader of a body. After the first failure all is zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) take(n uint64) []byte {
	if r.failed || n > uint64(len(r.b)) {
		r.failed = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes that follow their length; nil for none.
func (r *reader) bytes() []byte {
	if n := r.uvarint(); n > 0 {
		return r.take(n)
	}
	return nil
}
