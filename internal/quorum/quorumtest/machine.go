package quorumtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// machine is the state machine of a server: the last value of each key. A value is the number of
// the operation that wrote it.
type machine struct {
	check *checker
	last  uint64 // index of the last record
	keys  map[uint64]uint64
}

func newMachine(s *sim) *machine { return &machine{check: s.check, keys: map[uint64]uint64{}} }

// encodeWrite is the record of a write, of any length.
func encodeWrite(op, key uint64, padding int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, op)
	b = binary.LittleEndian.AppendUint64(b, key)
	return append(b, make([]byte, padding)...)
}

func decodeWrite(b []byte) (op, key uint64) {
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
}

func (m *machine) apply(sv *server, r core.Record) {
	m.check.applied(sv, r, m.last)
	op, key := decodeWrite(r.Data)
	m.keys[key] = op
	m.last = r.Index
}

// write writes the machine as the content of a snapshot.
func (m *machine) write(w io.Writer) error {
	b := binary.LittleEndian.AppendUint64(nil, m.last)
	for _, k := range slices.Sorted(maps.Keys(m.keys)) {
		b = binary.LittleEndian.AppendUint64(b, k)
		b = binary.LittleEndian.AppendUint64(b, m.keys[k])
	}
	_, err := w.Write(b)
	return err
}

func (m *machine) restore(b []byte) error {
	if len(b) < 8 || len(b)%16 != 8 {
		return fmt.Errorf("a snapshot has %d bytes", len(b))
	}
	m.last, m.keys = binary.LittleEndian.Uint64(b), map[uint64]uint64{}
	for b = b[8:]; len(b) > 0; b = b[16:] {
		m.keys[binary.LittleEndian.Uint64(b)] = binary.LittleEndian.Uint64(b[8:])
	}
	return nil
}
