package roottest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Shop is the descriptor of an application.
const Shop = `application: shop
services:
  web:
    command: [x]
    replicas: 3 # enough
  db: {command: [y]}
`

// NewBackend is the interface of a root on an in-memory store, without clusters.
func NewBackend(t *testing.T, store *bustest.MemStore) backend.Backend {
	t.Helper()
	c := NewCore(t, store)
	shelf, err := objects.Open(t.Context(),
		objects.Options{Store: store, Blobs: bustest.NewMemBlobs(),
			Quota: func(namespace string) int64 { return backend.ObjectQuota(c, namespace) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Close)
	return backend.Backend{Core: c, ObjectStore: shelf, Book: &people.Book{Store: store, Now: time.Now},
		Log: &people.Log{Store: store, Now: time.Now}}
}

// NewLinkedBackend is the interface of a root with a model, and the other end of the link that
// leads to each of its clusters.
func NewLinkedBackend(t *testing.T, m *state.Model) (backend.Backend, bus.Conn) {
	t.Helper()
	conn := bustest.NewMem().Conn("cluster", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	t.Cleanup(conn.Close)
	return backend.Backend{Core: &core.Core{M: m, LinkTo: func(string) (bus.Conn, error) { return conn, nil }}}, conn
}

// Code is the code of the problem that err is, or "".
func Code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// App is the descriptor of an application in a namespace, with more lines at its end.
func App(namespace, app string, replicas int, more string) []byte {
	return fmt.Appendf(nil, "application: %s\nnamespace: %s\nservices:\n  web:\n    command: [x]\n    replicas: "+
		"%d\n    resources: {cpu: 500m, memory: 256Mi}\n%s", app, namespace, replicas, more)
}

// MustApply applies a descriptor.
func MustApply(t *testing.T, b backend.Backend, source []byte) {
	t.Helper()
	if _, err := b.Apply(t.Context(), source, false); err != nil {
		t.Fatal(err)
	}
}
