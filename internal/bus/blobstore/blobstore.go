package blobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/pieces"
	"github.com/verge-edge/verge/internal/bus/stream"
	"github.com/verge-edge/verge/internal/wire"
)

var _ bus.Blobs = (*Store)(nil)

// The stream of blobs: piece n of a blob is the one message of its own subject, so
// that any of them is found by its name and a reader needs no consumer.
const (
	blobStream  = "OBJECTS"
	blobSubject = "blob." // + id.number

	// blobFree is what blobs leave free on the disk, beyond what the store wants to
	// go on: objects must not end orchestration.
	blobFree = 256 << 20
	// pieceTimeout bounds the write or the reading of one piece.
	pieceTimeout = 30 * time.Second
	// sweepTimeout bounds removing what a write that failed has left.
	sweepTimeout = 30 * time.Second
)

// Store is the durable Blobs of a tier. Its stream is made when the first blob
// is written: a tier without objects has none, and pays for none.
type Store struct {
	dir  string
	log  *slog.Logger
	free func(dir string) (uint64, error) // replaced in tests
	// dial makes a connection of its own, so that what is large does not stand
	// before commits.
	dial func() (*nats.Conn, error)

	mu sync.Mutex
	// Guarded by mu.
	js      *stream.Log
	dialed  bool // js has a connection
	there   bool // the stream is
	readers pieces.Readers
	closed  bool
}

// Open finds out whether there are blobs; nc is used for that alone.
func Open(ctx context.Context, nc *nats.Conn, dir string, log *slog.Logger, dial func() (*nats.Conn, error)) (*Store, error) {
	b := &Store{
		dir: dir, log: log, free: stream.FreeBytes, dial: dial,
		js: stream.New(nc, dir, blobStream), readers: pieces.NewReaders(),
	}
	_, found, err := b.js.Info(ctx, nil)
	if err == nil && found {
		b.there = true
		err = b.js.Sync()
	}
	if err != nil {
		b.js.Close()
		return nil, fmt.Errorf("look for objects in %s: %w", dir, err)
	}
	return b, nil
}

// ready returns what to speak with the stream by; nil if there is no stream and
// none is to be made.
func (b *Store) ready(ctx context.Context, create bool) (*stream.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, bus.ErrClosed
	case !b.there && !create:
		return nil, nil
	}
	if !b.dialed {
		c, err := b.dial()
		if err != nil {
			return nil, err
		}
		b.dialed = true
		b.js.Use(c)
	}
	if !b.there {
		if err := b.js.Create(ctx, blobSubject+">"); err != nil {
			return nil, fmt.Errorf("make the stream of objects: %w", err)
		}
		b.there = true
	}
	return b.js, nil
}

// room says whether n more bytes fit.
func (b *Store) room(n int) error {
	free, err := b.free(b.dir)
	if err != nil {
		return err
	}
	if want := uint64(blobFree + stream.MinFree + n); free < want { //nolint:gosec // a length
		return fmt.Errorf("%w: %d MiB are free under %s, and objects leave %d", bus.ErrFull, free>>20, b.dir, want>>20)
	}
	return stream.CheckHandles(b.dir)
}

// Write implements Blobs.
func (b *Store) Write(ctx context.Context, r io.Reader, limit int64) (bus.Blob, error) {
	if err := b.room(pieces.Size); err != nil {
		return bus.Blob{}, err
	}
	js, err := b.ready(ctx, true)
	if err != nil {
		return bus.Blob{}, err
	}
	out := bus.Blob{ID: wire.NewID()}
	out.Size, out.Digest, err = pieces.Cut(ctx, r, limit, func(n int, data []byte) error {
		if err := b.room(len(data)); err != nil {
			return err
		}
		return putPiece(js, out.ID, n, data)
	})
	if err == nil {
		err = js.Sync()
	}
	if err != nil {
		// Also when the caller is gone: nothing else knows of the pieces.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
		defer cancel()
		if rerr := b.purge(ctx, out.ID); rerr != nil {
			b.log.Warn("what a broken upload has left goes with the next start", "error", rerr)
		}
		return bus.Blob{}, err
	}
	return out, nil
}

// putPiece stores one piece.
func putPiece(js *stream.Log, id string, n int, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), pieceTimeout)
	defer cancel()
	reply, err := js.Ask(ctx, &nats.Msg{Subject: pieceSubject(id, n), Data: data})
	if err != nil {
		return fmt.Errorf("store piece %d: %w", n, err)
	}
	var ack server.JSPubAckResponse
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("store piece %d: acknowledgement is not readable: %w", n, err)
	}
	if ack.Error != nil {
		return fmt.Errorf("store piece %d: %s", n, ack.Error.Description)
	}
	return nil
}

func pieceSubject(id string, n int) string { return blobSubject + id + "." + strconv.Itoa(n) }

// getPiece reads one piece.
func getPiece(ctx context.Context, js *stream.Log, id string, n int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	m, err := js.Get(ctx, pieceSubject(id, n))
	if err != nil {
		return nil, fmt.Errorf("read piece %d: %w", n, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return m.Data, nil
	case strconv.Itoa(http.StatusNotFound):
		return nil, fmt.Errorf("%w: piece %d is not there", bus.ErrDamaged, n)
	default:
		return nil, fmt.Errorf("%w: piece %d: %s %s", bus.ErrDamaged, n, status, m.Header.Get("Description"))
	}
}

// Open implements Blobs.
func (b *Store) Open(ctx context.Context, blob bus.Blob) (bus.BlobReader, error) {
	js, err := b.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	ok := js != nil && b.readers.Begin(blob.ID)
	b.mu.Unlock()
	if !ok {
		return nil, bus.ErrNotFound
	}
	first, err := getPiece(ctx, js, blob.ID, 0)
	if err != nil {
		b.ended(blob.ID)
		if errors.Is(err, bus.ErrDamaged) {
			err = fmt.Errorf("%w: %w", bus.ErrNotFound, err)
		}
		return nil, err
	}
	fetch := func(n int) ([]byte, error) { return getPiece(ctx, js, blob.ID, n) }
	return pieces.NewReader(blob.Size, first, fetch, func() { b.ended(blob.ID) }), nil
}

// ended forgets a reader.
func (b *Store) ended(id string) {
	b.mu.Lock()
	remove := b.readers.End(id) && !b.closed
	b.mu.Unlock()
	if !remove {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	if err := b.purge(ctx, id); err != nil {
		b.log.Warn("an object that was removed goes with the next start", "error", err)
	}
}

// Remove implements Blobs.
func (b *Store) Remove(ctx context.Context, id string) error {
	b.mu.Lock()
	now := b.readers.Remove(id)
	b.mu.Unlock()
	if !now {
		return nil
	}
	return b.purge(ctx, id)
}

// purge removes all pieces of a blob.
func (b *Store) purge(ctx context.Context, id string) error {
	js, err := b.ready(ctx, false)
	if err != nil || js == nil {
		return err
	}
	if id == "" || strings.ContainsAny(id, ".*> ") {
		return fmt.Errorf("%q is no id of a blob", id)
	}
	if err := js.Purge(ctx, server.JSApiStreamPurgeRequest{Subject: blobSubject + id + ".>"}); err != nil {
		return fmt.Errorf("remove an object: %w", err)
	}
	return nil
}

// List implements Blobs. Every blob has a first piece; what has others alone is
// found too.
func (b *Store) List(ctx context.Context) ([]string, error) {
	js, err := b.ready(ctx, false)
	if err != nil || js == nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []string
	for offset := 0; ; {
		page := server.ApiPagedRequest{Offset: offset}
		info, found, err := js.Info(ctx, server.JSApiStreamInfoRequest{ApiPagedRequest: page, SubjectsFilter: blobSubject + ">"})
		if err == nil && !found {
			err = errors.New("their stream is gone")
		}
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		for subject := range info.State.Subjects {
			id, _, _ := strings.Cut(strings.TrimPrefix(subject, blobSubject), ".")
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
		offset += len(info.State.Subjects)
		if len(info.State.Subjects) == 0 || offset >= info.Total {
			return out, nil
		}
	}
}

// Close ends the use of the stream, before its server ends.
func (b *Store) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.js.Close()
}
