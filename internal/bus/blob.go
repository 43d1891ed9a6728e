package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Errors of Blobs that callers branch on.
var (
	// ErrTooLarge: there was more than the limit of a Write.
	ErrTooLarge = errors.New("larger than allowed")
	// ErrFull: the disk has no room for it.
	ErrFull = errors.New("the disk is full")
	// ErrDamaged: what was stored is not there as it was.
	ErrDamaged = errors.New("damaged")
)

// Blob is a sequence of bytes that was stored. It never changes.
type Blob struct {
	// ID names it in its store, and is given once.
	ID   string
	Size int64
	// Digest is the SHA-256 of its bytes, in hexadecimal digits.
	Digest string
}

// BlobReader reads a blob from any place. It is used by one goroutine at a time.
// Bytes that are not there as they were written end a Read with ErrDamaged.
type BlobReader interface {
	io.ReadSeekCloser
}

// Blobs is what one tier keeps that is too large for its Store, which is to hold
// what they are called. All methods may be called concurrently; none needs memory
// for more than one piece (blobPiece) of a blob.
type Blobs interface {
	// Write stores all that r has. Unless it returns nil nothing of it stays: it
	// returns ErrTooLarge if there is more than limit, ErrFull, and what r or ctx
	// say. It is on the disk when Write returns, and somebody has to remember its
	// ID: see List.
	Write(ctx context.Context, r io.Reader, limit int64) (Blob, error)
	// Open returns a reader of a blob, ErrNotFound if nothing of it is there. What
	// was opened can be read to its end, whoever removes it meanwhile.
	Open(ctx context.Context, b Blob) (BlobReader, error)
	// Remove gives a blob's room back once nobody reads it. Removing what is not
	// there is no error.
	Remove(ctx context.Context, id string) error
	// List returns the IDs of all that is there, also of what a process that was
	// killed has begun to write: who opens a store removes what has no name.
	List(ctx context.Context) ([]string, error)
}

// blobPiece is how much of a blob is in one message: one write to the disk.
const blobPiece = 256 << 10

// maxPieces bounds what a blob is made of, and so its size: 1 TiB.
const maxPieces = 1 << 22

// pieces cuts r into pieces of at most blobPiece and gives them to put, which may
// keep none; there is at least one. It returns the size and the digest.
func pieces(ctx context.Context, r io.Reader, limit int64, put func(n int, data []byte) error) (size int64, digest string, err error) {
	sum := sha256.New()
	buf := make([]byte, min(blobPiece, max(limit, 0)+1))
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
			return 0, "", fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
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

// pieceReader reads a blob piece by piece.
type pieceReader struct {
	size  int64
	fetch func(n int) ([]byte, error)
	done  func()

	at     int64
	n      int // number of the piece in data, -1: none
	data   []byte
	closed bool
}

var _ BlobReader = (*pieceReader)(nil)

// Read implements io.Reader.
func (r *pieceReader) Read(p []byte) (int, error) {
	switch {
	case r.closed:
		return 0, ErrClosed
	case len(p) == 0:
		return 0, nil
	case r.at >= r.size:
		return 0, io.EOF
	}
	if n := int(r.at / blobPiece); n != r.n {
		data, err := r.fetch(n)
		if err != nil {
			return 0, err
		}
		if want := min(blobPiece, r.size-int64(n)*blobPiece); int64(len(data)) != want {
			return 0, fmt.Errorf("%w: piece %d has %d bytes instead of %d", ErrDamaged, n, len(data), want)
		}
		r.n, r.data = n, data
	}
	got := copy(p, r.data[r.at%blobPiece:])
	r.at += int64(got)
	return got, nil
}

// Seek implements io.Seeker.
func (r *pieceReader) Seek(offset int64, whence int) (int64, error) {
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
func (r *pieceReader) Close() error {
	if !r.closed {
		r.closed, r.data = true, nil
		r.done()
	}
	return nil
}

// readers counts who reads which blob, so that it is removed when nobody does.
type readers struct {
	open   map[string]int
	doomed map[string]bool
}

func newReaders() readers { return readers{open: map[string]int{}, doomed: map[string]bool{}} }

// begin notes a reader; false if the blob is not to be read any more.
func (r *readers) begin(id string) bool {
	if r.doomed[id] {
		return false
	}
	r.open[id]++
	return true
}

// end forgets a reader, and says whether the blob is to be removed now.
func (r *readers) end(id string) (remove bool) {
	if r.open[id]--; r.open[id] > 0 {
		return false
	}
	delete(r.open, id)
	remove = r.doomed[id]
	delete(r.doomed, id)
	return remove
}

// remove says whether the blob is to be removed now; else it is when its last
// reader ends.
func (r *readers) remove(id string) (now bool) {
	if r.open[id] > 0 {
		r.doomed[id] = true
		return false
	}
	return true
}
