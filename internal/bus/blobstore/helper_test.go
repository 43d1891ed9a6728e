package blobstore_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/blobstore"
	"github.com/verge-edge/verge/internal/bus/jetstreamtest"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// node is a store on a server of its own.
type node struct {
	*jetstreamtest.Server
	store *logstore.Store
	blobs *blobstore.Store
	once  sync.Once
}

func startNode(t testing.TB, dir string) *node {
	t.Helper()
	if err := logstore.Check(dir); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n := &node{Server: jetstreamtest.Start(t, dir)}
	var err error
	if n.store, err = logstore.Open(t.Context(), n.Conn(), dir, log); err != nil {
		t.Fatal(err)
	}
	dial := func() (*nats.Conn, error) { return n.Conn(), nil }
	if n.blobs, err = blobstore.Open(t.Context(), n.Conn(), dir, log, dial); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func (n *node) Store() bus.Store { return n.store }

func (n *node) Blobs() bus.Blobs { return n.blobs }

func (n *node) Close() {
	n.once.Do(func() {
		n.blobs.Close()
		n.store.Close()
		n.Server.Close()
	})
}
