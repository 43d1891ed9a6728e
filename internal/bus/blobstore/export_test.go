package blobstore

import (
	"context"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/stream"
)

// SetBlobSpace makes the disk of the blobs have n bytes free.
func SetBlobSpace(b bus.Blobs, n uint64) {
	b.(*Store).free = func(string) (uint64, error) { return n, nil }
}

// BlobFree is what blobs leave free.
const BlobFree = blobFree + stream.MinFree

// LosePiece drops a piece of a blob.
func LosePiece(ctx context.Context, b bus.Blobs, id string, n int) error {
	js, err := b.(*Store).ready(ctx, false)
	if err != nil {
		return err
	}
	return js.Purge(ctx, server.JSApiStreamPurgeRequest{Subject: pieceSubject(id, n)})
}

// HasBlobStream says whether there is a stream of blobs.
func HasBlobStream(b bus.Blobs) bool { return b.(*Store).there }
