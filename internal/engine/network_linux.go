package engine

import (
	"net"
	"path/filepath"

	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// newNetwork opens the service network of this worker.
func newNetwork(e *Engine, k *kit) (network, error) {
	// An identity of its own: the router's is asked in its handshakes alone.
	dir := filepath.Join(k.dir, wire.IdentityDir)
	id := &identity{dir: dir, log: k.log, clock: pki.ReadClock(dir), revoked: &e.revoked}
	n, err := overlay.Open(overlay.Options{
		Dir: k.dir, Worker: k.config.Worker, Cluster: k.config.Cluster, Log: k.log,
		Ready: func(id wire.InstanceID) bool {
			s, ok := e.board.get(id)
			return ok && s.Ready && !s.Draining && s.Phase == wire.PhaseRunning
		},
		Through: func(ln net.Listener, app, service, port string) { k.router.Serve(ln, app, service, port) },
		Problem: k.problems.tell,
		Paths: &overlay.PathOptions{
			TLS: id.config, PeerName: peerName, RelayName: relayName, Verify: id.verify, Changed: e.pathsChanged,
		},
	})
	if err != nil {
		return nil, err // a nil *Network is no nil network
	}
	return n, nil
}
