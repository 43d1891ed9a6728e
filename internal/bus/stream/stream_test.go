package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server/ats"
)

const (
	name    = "STORE"
	subject = "log"
)

// message is one of block n, as the server writes it.
func message(t *testing.T, n int, seq uint64, data string) []byte {
	t.Helper()
	b := binary.LittleEndian.AppendUint32(nil, uint32(blockHeader+len(subject)+len(data)+blockChecksum))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, 1) // time
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(append(b, subject...), data...)
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", name, n))
	sum, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		t.Fatal(err)
	}
	_, _ = sum.Write(b[4:20])
	_, _ = sum.Write(b[blockHeader:])
	return sum.Sum(b)
}

// write makes the files of a stream, by number.
func write(t *testing.T, blocks ...[]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	msgs := filepath.Join(dir, "jetstream", "jetstream", "A", "streams", name, "msgs")
	if err := os.MkdirAll(msgs, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, b := range blocks {
		if err := os.WriteFile(filepath.Join(msgs, fmt.Sprintf("%d.blk", i+1)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Only the torn end of the last write is no damage: nothing after it was acknowledged.
func TestCheckFindsDamage(t *testing.T) {
	first := slices.Concat(message(t, 1, 1, "a"), message(t, 1, 2, "b"))
	last := slices.Concat(message(t, 2, 3, "c"), message(t, 2, 4, "d"))
	flipped := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 4
		return b
	}
	for what, c := range map[string]struct {
		blocks [][]byte
		had    uint64
		sound  bool
	}{
		"nothing":                       {nil, 0, true},
		"nothing, and there was some":   {nil, 1, false},
		"whole":                         {[][]byte{first, last}, 4, true},
		"torn at its end":               {[][]byte{first, last[:len(last)-3]}, 3, true},
		"torn, and that was there":      {[][]byte{first, last[:len(last)-3]}, 4, false},
		"torn before its end":           {[][]byte{first[:len(first)-3], last}, 4, false},
		"damaged, and more is after it": {[][]byte{first, flipped(last, blockHeader+len(subject))}, 2, false},
		"a length that is none":         {[][]byte{first, flipped(last, 2)}, 2, false},
		"of another block":              {[][]byte{first, message(t, 3, 3, "c")}, 3, false},
	} {
		err := Check(write(t, c.blocks...), name, subject, c.had)
		if (err == nil) != c.sound || err != nil && !errors.Is(err, errLogDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The names of files become durable, also of those that come later.
func TestFilesAreSynced(t *testing.T) {
	dir := write(t, message(t, 1, 1, "a"))
	l := New(nil, dir, name)
	for range 2 {
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		later := filepath.Join(l.files.msgs, "2.blk")
		if err := os.WriteFile(later, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"1.blk", "2.blk"}; !slices.Equal(l.files.names, want) {
		t.Errorf("durable are %q, want %q", l.files.names, want)
	}
	if err := New(nil, t.TempDir(), name).Sync(); !errors.Is(err, errLogDamaged) {
		t.Errorf("without a stream: %v", err)
	}
}

// The server's clock stands still between uses. What the server has counted out by itself is not
// counted out again, which would stop the clock of another stream.
func TestTheClockRests(t *testing.T) {
	ats.Register() // as a file store does
	l := New(nil, t.TempDir(), name)
	l.wake()
	l.Close() // before it is open
	l.opened()
	l.RestNow()
	if l.RestNow(); !l.Resting() {
		t.Error("it does not rest")
	}
	if l.wake(); l.Resting() {
		t.Error("it rests while it is used")
	}
	l.RestNow()
	if l.Close(); l.Resting() {
		t.Error("it rests when the file store closes")
	}
	if l.RestNow(); l.Resting() {
		t.Error("it rests after its end")
	}
	ats.Unregister()
	gone := New(nil, t.TempDir(), name)
	gone.opened()
	if gone.RestNow(); gone.Resting() || !gone.rest.ended {
		t.Error("it gives back what the server has given back")
	}
}
