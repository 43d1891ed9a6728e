package bustest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/pieces"
	"github.com/verge-edge/verge/internal/wire"
)

var _ bus.Blobs = (*MemBlobs)(nil)

// MemBlobs is the twin of the durable Blobs for tests: the same promises, but for
// the disk.
type MemBlobs struct {
	mu sync.Mutex
	// Guarded by mu.
	data    map[string][]byte
	readers pieces.Readers
	fail    error
}

// NewMemBlobs returns an empty one.
func NewMemBlobs() *MemBlobs {
	return &MemBlobs{data: map[string][]byte{}, readers: pieces.NewReaders()}
}

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
func (m *MemBlobs) Write(ctx context.Context, r io.Reader, limit int64) (bus.Blob, error) {
	out := bus.Blob{ID: wire.NewID()}
	var all bytes.Buffer
	var err error
	out.Size, out.Digest, err = pieces.Cut(ctx, r, limit, func(_ int, data []byte) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.fail != nil {
			return m.fail
		}
		_, _ = all.Write(data) // never fails
		return nil
	})
	if err != nil {
		return bus.Blob{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data[out.ID] = all.Bytes()
	return out, nil
}

// Open implements Blobs.
func (m *MemBlobs) Open(_ context.Context, b bus.Blob) (bus.BlobReader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.data[b.ID]; !ok || !m.readers.Begin(b.ID) {
		return nil, bus.ErrNotFound
	}
	return pieces.NewReader(b.Size, nil, func(n int) ([]byte, error) { return m.piece(b.ID, n) }, func() { m.ended(b.ID) }), nil
}

func (m *MemBlobs) piece(id string, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.data[id]
	if from := n * pieces.Size; ok && from < len(data) {
		return data[from:min(from+pieces.Size, len(data))], nil
	}
	return nil, fmt.Errorf("%w: piece %d is not there", bus.ErrDamaged, n)
}

func (m *MemBlobs) ended(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readers.End(id) {
		delete(m.data, id)
	}
}

// Remove implements Blobs.
func (m *MemBlobs) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readers.Remove(id) {
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
