package bus

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

	"github.com/verge-edge/verge/internal/wire"
)

var _ Blobs = (*blobStore)(nil)

// The stream of blobs: piece n of a blob is the one message of its own subject, so
// that any of them is found by its name and a reader needs no consumer.
const (
	blobStream  = "OBJECTS"
	blobSubject = "blob." // + id.number

	apiBlobInfo   = "$JS.API.STREAM.INFO." + blobStream
	apiBlobCreate = "$JS.API.STREAM.CREATE." + blobStream
	apiBlobPurge  = "$JS.API.STREAM.PURGE." + blobStream
	apiBlobGet    = "$JS.API.DIRECT.GET." + blobStream + "."

	// blobFree is what blobs leave free on the disk, beyond what the store wants to
	// go on: objects must not end orchestration.
	blobFree = 256 << 20
	// pieceTimeout bounds the write or the reading of one piece.
	pieceTimeout = 30 * time.Second
	// sweepTimeout bounds removing what a write that failed has left.
	sweepTimeout = 30 * time.Second
)

func blobConfig() server.StreamConfig {
	c := streamConfig()
	c.Name, c.Subjects = blobStream, []string{blobSubject + ">"}
	return c
}

// blobStore is the durable Blobs of a tier. Its stream is made when the first blob
// is written: a tier without objects has none, and pays for none.
type blobStore struct {
	dir  string
	log  *slog.Logger
	free func(dir string) (uint64, error) // replaced in tests
	// dial makes a connection of its own, so that what is large does not stand
	// before commits.
	dial func() (*conn, error)

	mu sync.Mutex
	// Guarded by mu.
	conn    *conn  // nil before the first use
	js      *jsLog // on conn
	there   bool   // the stream is
	readers readers
	closed  bool
}

// openBlobs finds out whether there are blobs; js is the store's.
func openBlobs(ctx context.Context, js *jsLog, dir string, log *slog.Logger, dial func() (*conn, error)) (*blobStore, error) {
	b := &blobStore{dir: dir, log: log, free: freeBytes, dial: dial, readers: newReaders()}
	var info server.JSApiStreamInfoResponse
	if err := js.call(ctx, apiBlobInfo, nil, &info); err != nil {
		return nil, fmt.Errorf("look for objects in %s: %w", dir, err)
	}
	switch {
	case info.Error == nil:
		b.there = true
		b.js = b.newLog()
		b.js.rest = newRester()
		if err := b.js.files.sync(); err != nil {
			return nil, fmt.Errorf("look for objects in %s: %w", dir, err)
		}
	case info.Error.ErrCode != uint16(server.JSStreamNotFoundErr):
		return nil, fmt.Errorf("look for objects in %s: %s", dir, info.Error.Description)
	}
	return b, nil
}

func (b *blobStore) newLog() *jsLog {
	return &jsLog{files: &streamFiles{dir: b.dir, stream: blobStream}}
}

// ready returns what to speak with the stream by; nil if there is no stream and
// none is to be made.
func (b *blobStore) ready(ctx context.Context, create bool) (*jsLog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case !b.there && !create:
		return nil, nil
	}
	if b.conn == nil {
		c, err := b.dial()
		if err != nil {
			return nil, err
		}
		if b.js == nil {
			b.js = b.newLog()
		}
		b.conn, b.js.nc = c, c.nc
	}
	if !b.there {
		var created server.JSApiStreamCreateResponse
		if err := b.js.call(ctx, apiBlobCreate, blobConfig(), &created); err != nil {
			return nil, err
		}
		if created.Error != nil {
			return nil, fmt.Errorf("make the stream of objects: %s", created.Error.Description)
		}
		b.there, b.js.rest = true, newRester()
	}
	return b.js, nil
}

// room says whether n more bytes fit.
func (b *blobStore) room(n int) error {
	free, err := b.free(b.dir)
	if err != nil {
		return err
	}
	if want := uint64(blobFree + minFree + n); free < want { //nolint:gosec // a length
		return fmt.Errorf("%w: %d MiB are free under %s, and objects leave %d", ErrFull, free>>20, b.dir, want>>20)
	}
	return checkHandles(b.dir)
}

// Write implements Blobs.
func (b *blobStore) Write(ctx context.Context, r io.Reader, limit int64) (Blob, error) {
	if err := b.room(blobPiece); err != nil {
		return Blob{}, err
	}
	js, err := b.ready(ctx, true)
	if err != nil {
		return Blob{}, err
	}
	out := Blob{ID: wire.NewID()}
	out.Size, out.Digest, err = pieces(ctx, r, limit, func(n int, data []byte) error {
		if err := b.room(len(data)); err != nil {
			return err
		}
		return js.putPiece(out.ID, n, data)
	})
	if err == nil {
		err = js.files.sync()
	}
	if err != nil {
		// Also when the caller is gone: nothing else knows of the pieces.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
		defer cancel()
		if rerr := b.purge(ctx, out.ID); rerr != nil {
			b.log.Warn("what a broken upload has left goes with the next start", "error", rerr)
		}
		return Blob{}, err
	}
	return out, nil
}

// putPiece stores one piece.
func (l *jsLog) putPiece(id string, n int, data []byte) error {
	l.wake()
	reply, err := l.nc.RequestMsg(&nats.Msg{Subject: pieceSubject(id, n), Data: data}, pieceTimeout)
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

// piece reads one piece.
func (l *jsLog) piece(ctx context.Context, id string, n int) ([]byte, error) {
	l.wake()
	ctx, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	m, err := l.nc.RequestWithContext(ctx, apiBlobGet+pieceSubject(id, n), nil)
	if err != nil {
		return nil, fmt.Errorf("read piece %d: %w", n, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return m.Data, nil
	case strconv.Itoa(http.StatusNotFound):
		return nil, fmt.Errorf("%w: piece %d is not there", ErrDamaged, n)
	default:
		return nil, fmt.Errorf("%w: piece %d: %s %s", ErrDamaged, n, status, m.Header.Get("Description"))
	}
}

// Open implements Blobs.
func (b *blobStore) Open(ctx context.Context, blob Blob) (BlobReader, error) {
	js, err := b.ready(ctx, false)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	ok := js != nil && b.readers.begin(blob.ID)
	b.mu.Unlock()
	if !ok {
		return nil, ErrNotFound
	}
	first, err := js.piece(ctx, blob.ID, 0)
	if err != nil {
		b.ended(blob.ID)
		if errors.Is(err, ErrDamaged) {
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return nil, err
	}
	r := &pieceReader{size: blob.Size, n: -1, fetch: func(n int) ([]byte, error) { return js.piece(ctx, blob.ID, n) }, done: func() { b.ended(blob.ID) }}
	if int64(len(first)) == min(blobPiece, blob.Size) {
		r.n, r.data = 0, first
	}
	return r, nil
}

// ended forgets a reader.
func (b *blobStore) ended(id string) {
	b.mu.Lock()
	remove := b.readers.end(id) && !b.closed
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
func (b *blobStore) Remove(ctx context.Context, id string) error {
	b.mu.Lock()
	now := b.readers.remove(id)
	b.mu.Unlock()
	if !now {
		return nil
	}
	return b.purge(ctx, id)
}

// purge removes all pieces of a blob.
func (b *blobStore) purge(ctx context.Context, id string) error {
	js, err := b.ready(ctx, false)
	if err != nil || js == nil {
		return err
	}
	if id == "" || strings.ContainsAny(id, ".*> ") {
		return fmt.Errorf("%q is no id of a blob", id)
	}
	var reply server.JSApiStreamPurgeResponse
	if err := js.call(ctx, apiBlobPurge, server.JSApiStreamPurgeRequest{Subject: blobSubject + id + ".>"}, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("remove an object: %s", reply.Error.Description)
	}
	return nil
}

// List implements Blobs. Every blob has a first piece; what has others alone is
// found too.
func (b *blobStore) List(ctx context.Context) ([]string, error) {
	js, err := b.ready(ctx, false)
	if err != nil || js == nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []string
	for offset := 0; ; {
		var info server.JSApiStreamInfoResponse
		req := server.JSApiStreamInfoRequest{ApiPagedRequest: server.ApiPagedRequest{Offset: offset}, SubjectsFilter: blobSubject + ">"}
		if err := js.call(ctx, apiBlobInfo, req, &info); err != nil {
			return nil, err
		}
		if info.Error != nil {
			return nil, fmt.Errorf("list objects: %s", info.Error.Description)
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

// close ends the use of the stream, before its server ends.
func (b *blobStore) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.js != nil && b.js.rest != nil {
		b.js.rest.end()
	}
}
