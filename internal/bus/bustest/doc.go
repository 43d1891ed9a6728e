// Package bustest has the conformance suite of package bus: what every Store
// and every Conn must do, whatever is under it. The in-memory twins and the real
// ones run the same tests.
package bustest

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// Factory makes what is to be tested. Each call makes something new, which is
// cleaned up with t.
type Factory struct {
	// Store makes an empty store; nil leaves the stores out.
	Store func(t *testing.T) StoreUnderTest
	// Blobs makes an empty store of blobs; nil leaves them out. Reopened closes it and
	// opens it again, as a restart does; nil where that is not possible.
	Blobs func(t *testing.T) (open bus.Blobs, reopened func(t *testing.T) bus.Blobs)
	// Conns makes connections, one per identity, that reach each other; nil
	// leaves the connections out.
	Conns func(t *testing.T, identities ...bus.Permissions) []bus.Conn
}

// StoreUnderTest is a store and what can happen to it.
type StoreUnderTest interface {
	// Store is the one that is open now.
	Store() bus.Store
	// Reopen closes it and opens it again, as a restart does.
	Reopen(t *testing.T) bus.Store
	// Copy closes it, copies its data and opens it again. The result closes it
	// and opens the copy in its place, as a restored backup.
	Copy(t *testing.T) (restore func(t *testing.T) bus.Store)
}

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	if f.Store != nil {
		t.Run("Store", func(t *testing.T) { runStore(t, f.Store) })
	}
	if f.Blobs != nil {
		t.Run("Blobs", func(t *testing.T) { runBlobs(t, f.Blobs) })
	}
	if f.Conns != nil {
		t.Run("Conn", func(t *testing.T) { runConn(t, f.Conns) })
	}
}

// patience is how long something that must happen may take on a loaded machine.
const patience = 20 * time.Second
