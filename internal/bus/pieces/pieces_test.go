package pieces

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/verge-edge/verge/internal/bus"
)

// cut are the pieces of data, and what is said of them.
func cut(t *testing.T, data []byte) (out [][]byte, size int64, digest string) {
	t.Helper()
	size, digest, err := Cut(t.Context(), iotest.HalfReader(bytes.NewReader(data)), int64(len(data)), func(n int, b []byte) error {
		if n != len(out) {
			t.Errorf("piece %d comes as the %dth", n, len(out))
		}
		out = append(out, slices.Clone(b))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, size, digest
}

// What was cut is read again as it was, from any place, one piece at a time.
func TestWhatWasCutIsRead(t *testing.T) {
	for size, want := range map[int]int{0: 1, 1: 1, Size: 1, Size + 1: 2, 3*Size - 1: 3} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 31 >> 3)
		}
		all, n, digest := cut(t, data)
		sum := sha256.Sum256(data)
		if len(all) != want || n != int64(size) || digest != hex.EncodeToString(sum[:]) {
			t.Errorf("%d bytes: %d pieces, size %d, digest %s", size, len(all), n, digest)
		}
		fetched, closed := 0, 0
		r := NewReader(n, all[0], func(n int) ([]byte, error) { fetched++; return all[n], nil }, func() { closed++ })
		if err := iotest.TestReader(r, data); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		fetched = 0
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) || fetched > len(all) {
			t.Errorf("%d bytes: %d read by %d pieces, %v", size, len(got), fetched, err)
		}
		for range 2 {
			_ = r.Close() // never fails
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, bus.ErrClosed) || closed != 1 {
			t.Errorf("after the end: %v; closed %d times", err, closed)
		}
	}
}

func TestCutIsBounded(t *testing.T) {
	put := func(int, []byte) error { return nil }
	if _, _, err := Cut(t.Context(), bytes.NewReader(make([]byte, 11)), 10, put); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("more than the limit: %v", err)
	}
	broken := errors.New("broken")
	if _, _, err := Cut(t.Context(), iotest.ErrReader(broken), 10, put); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
	full := errors.New("full")
	if _, _, err := Cut(t.Context(), bytes.NewReader(nil), 10, func(int, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("a store that fails: %v", err)
	}
}

// A blob of another length than it was written with does not read as a whole one.
func TestADamagedPieceIsFound(t *testing.T) {
	for _, piece := range [][]byte{nil, make([]byte, Size-1), make([]byte, Size+1)} {
		r := NewReader(2*Size, nil, func(int) ([]byte, error) { return piece, nil }, func() {})
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, bus.ErrDamaged) {
			t.Errorf("a piece of %d bytes: %v", len(piece), err)
		}
	}
}

// A blob that is removed goes when its last reader ends, and nobody begins to read it meanwhile.
func TestReadersHoldABlob(t *testing.T) {
	r := NewReaders()
	for range 2 {
		if !r.Begin("a") {
			t.Fatal("a blob cannot be read")
		}
	}
	if r.Remove("a") {
		t.Fatal("a blob that is read goes")
	}
	if r.Begin("a") {
		t.Error("a blob that is to go is read")
	}
	if r.End("a") || !r.End("a") {
		t.Error("it goes with another than its last reader")
	}
	if !r.Begin("a") || r.End("a") || !r.Remove("a") {
		t.Error("a blob that nobody reads does not go at once")
	}
}
