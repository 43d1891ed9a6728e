package bus

import (
	"context"
	"errors"
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
// for more than one piece (pieces.Size) of a blob.
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
