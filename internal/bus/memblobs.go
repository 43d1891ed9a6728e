package bus

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/wire"
)

var _ Blobs = (*MemBlobs)(nil)

// MemBlobs is the twin of the durable Blobs for tests: the same promises, but for
// the disk.
type MemBlobs struct {
	mu sync.Mutex
	// Guarded by mu.
	data    map[string][]byte
	readers readers
	fail    error
}

// NewMemBlobs returns an empty one.
func NewMemBlobs() *MemBlobs { return &MemBlobs{data: map[string][]byte{}, readers: newReaders()} }

// FailWrites makes every Write fail with err until it is called with nil.
func (m *MemBlobs) FailWrites(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Lose drops what a blob has, as a disk may.
func (m *MemBlobs) Lose(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, id)
}

// Write implements Blobs.
func (m *MemBlobs) Write(ctx context.Context, r io.Reader, limit int64) (Blob, error) {
	out := Blob{ID: wire.NewID()}
	var all bytes.Buffer
	var err error
	out.Size, out.Digest, err = pieces(ctx, r, limit, func(_ int, data []byte) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.fail != nil {
			return m.fail
		}
		_, _ = all.Write(data) // never fails
		return nil
	})
	if err != nil {
		return Blob{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[out.ID] = all.Bytes()
	return out, nil
}

// Open implements Blobs.
func (m *MemBlobs) Open(_ context.Context, b Blob) (BlobReader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.data[b.ID]; !ok || !m.readers.begin(b.ID) {
		return nil, ErrNotFound
	}
	return &pieceReader{size: b.Size, n: -1, fetch: func(n int) ([]byte, error) { return m.piece(b.ID, n) }, done: func() { m.ended(b.ID) }}, nil
}

func (m *MemBlobs) piece(id string, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[id]
	if from := n * blobPiece; ok && from < len(data) {
		return data[from:min(from+blobPiece, len(data))], nil
	}
	return nil, fmt.Errorf("%w: piece %d is not there", ErrDamaged, n)
}

func (m *MemBlobs) ended(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readers.end(id) {
		delete(m.data, id)
	}
}

// Remove implements Blobs.
func (m *MemBlobs) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readers.remove(id) {
		delete(m.data, id)
	}
	return nil
}

// List implements Blobs.
func (m *MemBlobs) List(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.data)), nil
}
