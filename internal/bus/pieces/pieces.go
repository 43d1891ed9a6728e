package pieces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/verge-edge/verge/internal/bus"
)

// Size is how much of a blob is in one message: one write to the disk.
const Size = 256 << 10

// maxPieces bounds what a blob is made of, and so its size: 1 TiB.
const maxPieces = 1 << 22

// Cut cuts r into pieces of at most Size and gives them to put, which may
// keep none; there is at least one. It returns the size and the digest.
func Cut(ctx context.Context, r io.Reader, limit int64, put func(n int, data []byte) error) (size int64, digest string, err error) {
	sum := sha256.New()
	buf := make([]byte, min(Size, max(limit, 0)+1))
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		got, err := io.ReadFull(r, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, "", fmt.Errorf("read what is to be stored: %w", err)
		}
		end := err != nil
		if size += int64(got); size > limit || n >= maxPieces {
			return 0, "", fmt.Errorf("%w: more than %d bytes", bus.ErrTooLarge, limit)
		}
		if got > 0 || n == 0 {
			_, _ = sum.Write(buf[:got]) // never fails
			if err := put(n, buf[:got]); err != nil {
				return 0, "", err
			}
		}
		if end {
			return size, hex.EncodeToString(sum.Sum(nil)), nil //nolint:nilerr // that was the end
		}
	}
}

// Reader reads a blob piece by piece.
type Reader struct {
	size  int64
	fetch func(n int) ([]byte, error)
	done  func()

	at     int64
	n      int // number of the piece in data, -1: none
	data   []byte
	closed bool
}

// NewReader reads a blob of so many bytes by fetch, which returns one piece; done is
// called when it is closed. first is its first piece, if that is here already.
func NewReader(size int64, first []byte, fetch func(n int) ([]byte, error), done func()) *Reader {
	r := &Reader{size: size, n: -1, fetch: fetch, done: done}
	if first != nil && int64(len(first)) == min(Size, size) {
		r.n, r.data = 0, first
	}
	return r
}

var _ bus.BlobReader = (*Reader)(nil)

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	switch {
	case r.closed:
		return 0, bus.ErrClosed
	case len(p) == 0:
		return 0, nil
	case r.at >= r.size:
		return 0, io.EOF
	}
	if n := int(r.at / Size); n != r.n {
		data, err := r.fetch(n)
		if err != nil {
			return 0, err
		}
		if want := min(Size, r.size-int64(n)*Size); int64(len(data)) != want {
			return 0, fmt.Errorf("%w: piece %d has %d bytes instead of %d", bus.ErrDamaged, n, len(data), want)
		}
		r.n, r.data = n, data
	}
	got := copy(p, r.data[r.at%Size:])
	r.at += int64(got)
	return got, nil
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("seek: whence is %d", whence)
	}
	if offset < 0 {
		return 0, errors.New("seek: before the first byte")
	}
	r.at = offset
	return offset, nil
}

// Close implements io.Closer.
func (r *Reader) Close() error {
	if !r.closed {
		r.closed, r.data = true, nil
		r.done()
	}
	return nil
}

// Readers counts who reads which blob, so that it is removed when nobody does.
type Readers struct {
	open   map[string]int
	doomed map[string]bool
}

// NewReaders counts none.
func NewReaders() Readers { return Readers{open: map[string]int{}, doomed: map[string]bool{}} }

// Begin notes a reader; false if the blob is not to be read any more.
func (r *Readers) Begin(id string) bool {
	if r.doomed[id] {
		return false
	}
	r.open[id]++
	return true
}

// End forgets a reader, and says whether the blob is to be removed now.
func (r *Readers) End(id string) (remove bool) {
	if r.open[id]--; r.open[id] > 0 {
		return false
	}
	delete(r.open, id)
	remove = r.doomed[id]
	delete(r.doomed, id)
	return remove
}

// Remove says whether the blob is to be removed now; else it is when its last
// reader ends.
func (r *Readers) Remove(id string) (now bool) {
	if r.open[id] > 0 {
		r.doomed[id] = true
		return false
	}
	return true
}
