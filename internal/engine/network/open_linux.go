package network

import (
	"fmt"
	"path/filepath"

	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/overlay/names"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// filtered is an error where rules of others would drop what instances send, and the
// service network can be done without.
func (n *Network) filtered() error {
	list, err := hostnet.Filters()
	if err != nil {
		n.o.Log.Warn("whether rules of others are in the way of instances is not known", "why", err)
		return nil
	}
	if len(list) == 0 {
		return nil
	}
	err = fmt.Errorf("%v; let them pass (%s), then verge worker stop, and start the worker again", list[0],
		list[0].Remedy())
	if n.optional {
		return err
	}
	n.o.Problems.Tell(othersRules, inTheWay(list))
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

// rulesChanged checks again whether foreign rules are in the way.
func (n *Network) rulesChanged(base bool) {
	if !base && !n.o.Problems.Has(othersRules) {
		return
	}
	if list, err := hostnet.Filters(); err == nil { // else it stays as it was
		n.o.Problems.Tell(othersRules, inTheWay(list))
	}
}

// open opens the service network of this worker.
func (n *Network) open() (Overlay, error) {
	// An identity of its own: the router's is asked in its handshakes alone.
	id := identity.New(filepath.Join(n.o.Dir, engineapi.IdentityDir), n.o.Revoked, n.o.Log)
	var resolvers func() []string // nil: the machine's
	if n.o.Apart {
		resolvers = names.Outside
	}
	c := &n.o.Config
	v, err := overlay.Open(overlay.Options{
		Distances: n.o.Distances,
		Whole:     n.optional,
		Dir:       n.o.Dir, Boot: n.o.Boot, Worker: c.Worker, Cluster: c.Cluster, Log: n.o.Log,
		Ready: func(id wire.InstanceID) bool {
			s, ok := n.o.Board.Get(id)
			return ok && s.Ready && !s.Draining && s.Phase == wire.PhaseRunning
		},
		Through: n.o.Through,
		Objects: n.o.Objects, Listeners: n.o.Sockets, Resolvers: resolvers,
		Use: n.o.Use, Await: n.o.Await,
		Problem: n.o.Problems.Tell, Others: n.rulesChanged,
		MTU: c.Tunnel.MTU,
		Paths: &overlay.PathOptions{
			Port: c.Tunnel.Port, MTU: c.Tunnel.MTU, Rate: uint64(c.Tunnel.Shaped()), //nolint:gosec // never negative
			TLS: id.ServerTLS, Away: id.AwayTLS, Hidden: id.Hidden, PeerName: pki.WorkerName, RelayName: relayName,
			Verify:  id.Verify,
			Refused: n.o.Revoked.Refuses, Changed: n.pathsChanged,
		},
	})
	if err != nil {
		return nil, err // a nil *overlay.Network is no nil Overlay
	}
	return v, nil
}
