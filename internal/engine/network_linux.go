package engine

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/overlay/names"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// filtered is an error where rules of others would drop what instances send, and the
// service network can be done without.
func (e *Engine) filtered(k *kit) error {
	list, err := hostnet.Filters()
	if err != nil {
		e.log.Warn("whether rules of others are in the way of instances is not known", "why", err)
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	err = fmt.Errorf("%v; let them pass (%s), then verge worker stop, and start the worker again", list[0], list[0].Remedy())
	if k.optional {
		return err
	}
	k.problems.Tell(othersRules, inTheWay(list))
	return nil
}

// othersRules is what a problem with them is about.
const othersRules = "rules of others"

func inTheWay(list []hostnet.Filter) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("instances may not be reached: %v; let them pass: %s", list[0], list[0].Remedy())
}

// rulesChanged looks again where rules of others may be in the way now, or may not be
// any more.
func (k *kit) rulesChanged(base bool) {
	if !base && !k.problems.Has(othersRules) {
		return
	}
	if list, err := hostnet.Filters(); err == nil { // else it stays as it was
		k.problems.Tell(othersRules, inTheWay(list))
	}
}

// newNetwork opens the service network of this worker.
func newNetwork(e *Engine, k *kit) (network, error) {
	// An identity of its own: the router's is asked in its handshakes alone.
	dir := filepath.Join(k.dir, wire.IdentityDir)
	id := identity.New(dir, &e.revoked, k.log)
	var far overlay.Distances // a nil *distances is no nil Distances
	if k.far != nil {
		far = overlayDistances{k.far}
	}
	var resolvers func() []string // nil: the machine's
	if e.opts.Apart {
		resolvers = names.Outside
	}
	n, err := overlay.Open(overlay.Options{
		Distances: far,
		Whole:     k.optional,
		Dir:       k.dir, Boot: k.boot, Worker: k.config.Worker, Cluster: k.config.Cluster, Log: k.log,
		Ready: func(id wire.InstanceID) bool {
			s, ok := e.board.Get(id)
			return ok && s.Ready && !s.Draining && s.Phase == wire.PhaseRunning
		},
		Through: func(ln net.Listener, app, service, port string) { k.router.Serve(ln, app, service, port) },
		Objects: k.objects.Serve, Listeners: e.opts.Sockets, Resolvers: resolvers,
		Use: e.uses.use, Await: e.uses.await,
		Problem: k.problems.Tell, Others: k.rulesChanged,
		MTU: k.config.Tunnel.MTU,
		Paths: &overlay.PathOptions{
			Port: k.config.Tunnel.Port, MTU: k.config.Tunnel.MTU, Rate: uint64(k.config.Tunnel.Shaped()), //nolint:gosec // never negative
			TLS: id.ServerTLS, Away: id.AwayTLS, Hidden: id.Hidden, PeerName: pki.WorkerName, RelayName: relayName, Verify: id.Verify, Refused: e.revoked.Refuses, Changed: e.pathsChanged,
		},
	})
	if err != nil {
		return nil, err // a nil *Network is no nil network
	}
	return n, nil
}

// overlayDistances are the router's, of which the rules make the same use.
type overlayDistances struct{ *distances }

// Want implements overlay.Distances.
func (d overlayDistances) Want(service string, workers []overlay.Worker) {
	list := make([]proxy.Worker, len(workers))
	for i, w := range workers {
		list[i] = proxy.Worker(w)
	}
	d.distances.Want(service, list)
}
