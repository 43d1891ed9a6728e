package blobstore_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/blobstore"
)

func TestBlobsLeaveRoomOnTheDisk(t *testing.T) {
	t.Parallel()
	r := startNode(t, t.TempDir())
	if blobstore.HasBlobStream(r.Blobs()) {
		t.Error("a tier without objects has a stream for them")
	}
	b := r.Blobs()
	first, err := b.Write(t.Context(), bytes.NewReader(make([]byte, 600_000)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	// It is full when it is begun, and it becomes full in between.
	blobstore.SetBlobSpace(r.Blobs(), blobstore.BlobFree+1000)
	if _, err := b.Write(t.Context(), bytes.NewReader([]byte("x")), 1<<20); !errors.Is(err, bus.ErrFull) {
		t.Errorf("on a full disk: %v", err)
	}
	blobstore.SetBlobSpace(r.Blobs(), 1<<40)
	fills := io.MultiReader(bytes.NewReader(make([]byte, 600_000)), readerFunc(func([]byte) (int, error) {
		blobstore.SetBlobSpace(r.Blobs(), blobstore.BlobFree)
		return 0, io.EOF
	}))
	if _, err := b.Write(t.Context(), fills, 1<<20); !errors.Is(err, bus.ErrFull) {
		t.Errorf("on a disk that becomes full: %v", err)
	}
	if ids, err := b.List(t.Context()); err != nil || len(ids) != 1 || ids[0] != first.ID {
		t.Errorf("%v are there, %v", ids, err)
	}
	if _, err := r.Store().Put(t.Context(), "a", []byte("b")); err != nil {
		t.Errorf("the store of the tier is refused too: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestBlobDamaged(t *testing.T) {
	t.Parallel()
	r := startNode(t, t.TempDir())
	v, err := r.Blobs().Write(t.Context(), bytes.NewReader(make([]byte, 600_000)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := blobstore.LosePiece(t.Context(), r.Blobs(), v.ID, 1); err != nil {
		t.Fatal(err)
	}
	rd, err := r.Blobs().Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rd.Close() }()
	if n, err := io.Copy(io.Discard, rd); n != 256<<10 || !errors.Is(err, bus.ErrDamaged) {
		t.Errorf("%d bytes and %v of a blob without its second piece", n, err)
	}
	if err := blobstore.LosePiece(t.Context(), r.Blobs(), v.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Blobs().Open(t.Context(), v); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("without its first piece: %v", err)
	}
	// What is left of it is found by who cleans up.
	if ids, err := r.Blobs().List(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("%v are there, %v", ids, err)
	}
}
