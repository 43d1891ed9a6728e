package wal

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

func someBatch(index uint64, size int) batch {
	term := uint64(3)
	return batch{
		kind: kindEntries, prev: 77, state: hardState{3, 4, 5},
		entries: []*raftpb.Entry{{Term: &term, Index: &index, Data: bytes.Repeat([]byte{1}, size)}},
	}
}

func TestBatch(t *testing.T) {
	for _, size := range []int{0, 1, 464, 465, 466, 511, 512, 3000} {
		b := someBatch(9, size)
		out := b.encode()
		got, err := decode(slices.Concat(out, make([]byte, 512)))
		if err != nil || got.crc != b.crc || got.prev != 77 || got.state != b.state || len(got.entries) != 1 || got.sectors*512 != len(out) ||
			got.entries[0].GetIndex() != 9 || len(got.entries[0].Data) != size {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
		for i := 0; i < len(out); i += 512 {
			if out[i] == 0 {
				t.Errorf("%d bytes: sector %d begins with zero", size, i/512)
			}
		}
	}
}

// Whatever a segment holds, reading it ends, with batches whose CRC is right or an error.
func FuzzSegment(f *testing.F) {
	head := batch{kind: kindHead, head: head{5, 1, 1}}
	first := head.encode()
	b := someBatch(1, 1200)
	b.prev = head.crc
	second := b.encode()
	f.Add(slices.Concat(first, second, make([]byte, 1024)), uint16(700), byte(1))
	f.Add(slices.Concat(first, second[:512], make([]byte, 2048)), uint16(0), byte(0))
	f.Add(slices.Concat(first, make([]byte, 512), second[512:], make([]byte, 512)), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, content []byte, at uint16, bits byte) {
		content = slices.Clone(content)
		if len(content) > 0 {
			content[int(at)%len(content)] ^= bits
		}
		r := &found{first: 1}
		err := r.readSegment(segment{1, 1}, content, true, true)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		if err == nil && (r.end > r.size || r.end+r.torn > r.size || r.end%sectorSize != 0 || r.torn%sectorSize != 0) {
			t.Fatalf("it ends at %d, torn %d, of %d", r.end, r.torn, r.size)
		}
	})
}

// A batch that was changed anywhere, but not back, is never read as it was or as another one.
func FuzzBatch(f *testing.F) {
	f.Add(uint16(3), byte(1), uint16(200))
	f.Add(uint16(513), byte(0x80), uint16(2000))
	f.Fuzz(func(t *testing.T, at uint16, bits byte, size uint16) {
		b := someBatch(1, int(size)%4000)
		out := b.encode()
		out[int(at)%len(out)] ^= bits
		if got, err := decode(out); err == nil && bits != 0 {
			t.Fatalf("byte %d of %d changed by %x: %+v", int(at)%len(out), len(out), bits, got)
		}
	})
}
