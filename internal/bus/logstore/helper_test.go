package logstore_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/jetstreamtest"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// node is a store on a server of its own.
type node struct {
	*jetstreamtest.Server
	store *logstore.Store
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
	t.Cleanup(n.Close)
	return n
}

func (n *node) Store() bus.Store { return n.store }

func (n *node) Close() {
	n.once.Do(func() {
		n.store.Close()
		n.Server.Close()
	})
}

const patience = 30 * time.Second
