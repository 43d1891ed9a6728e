package core

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"

	"go.etcd.io/raft/v3/raftpb"
)

// The first byte of an entry's data says what it is.
const (
	kindRecord byte = iota // of the state machine
	kindMark               // all remember their sum at this entry
	kindCheck              // all compare what they remember with the sum in it
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// framed is data with its kind before it.
func framed(kind byte, data []byte) []byte {
	return append(append(make([]byte, 0, len(data)+1), kind), data...)
}

// recordOf is the record of the state machine in an entry; false: it holds none.
func recordOf(e *raftpb.Entry) ([]byte, bool) {
	if e.GetType() != raftpb.EntryNormal || len(e.Data) == 0 || e.Data[0] != kindRecord {
		return nil, false
	}
	return e.Data[1:], true
}

// sums tells servers whose state machines have applied different records.
type sums struct {
	sum     uint64 // over all records applied
	records int    // applied since the last mark

	mark    uint64 // index of the last mark; 0: none since the start or a snapshot
	markSum uint64
}

func (s *sums) add(index uint64, data []byte) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], s.sum)
	binary.LittleEndian.PutUint64(b[8:], index)
	s.sum = crc64.Update(crc64.Checksum(b[:], crcTable), crcTable, data)
	s.records++
}

func (s *sums) setMark(index uint64) { s.mark, s.markSum, s.records = index, s.sum, 0 }

// check compares with what the leader had at its mark.
func (s *sums) check(data []byte) error {
	if len(data) != 16 || s.mark != binary.LittleEndian.Uint64(data) {
		return nil // this server was not there at that mark
	}
	if leader := binary.LittleEndian.Uint64(data[8:]); leader != s.markSum {
		return fmt.Errorf("diverged: up to entry %d this server has applied other records than the leader (sum %x, not %x)",
			s.mark, s.markSum, leader)
	}
	return nil
}

// report is the content of a check.
func (s *sums) report() []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.mark)
	return binary.LittleEndian.AppendUint64(b, s.markSum)
}

// A snapshot has the sum at its index in the field that raft leaves to the application.
func encodeSum(sum uint64) []byte { return binary.LittleEndian.AppendUint64(nil, sum) }

func decodeSum(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func encodeContext(c uint64) []byte { return binary.LittleEndian.AppendUint64(nil, c) }

func contextOf(b []byte) uint64 { return decodeSum(b) }
