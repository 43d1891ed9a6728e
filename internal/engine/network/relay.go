package network

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
)

// relayKeyFile is the WireGuard key of the relay, in the data directory.
const relayKeyFile = "relay.key"

// relayAgain is when a relay that could not begin is tried again: its address may
// not be there yet.
const relayAgain = 10 * time.Second

// Relay lets a worker be a relay.
type Relay struct {
	o       Options
	running atomic.Pointer[relay.Server] // nil: it is none
}

// NewRelay is a relay by the same options as a Network.
func NewRelay(o Options) *Relay { return &Relay{o: o} }

// PeersChanged says that peers may be refused now that were not before.
func (r *Relay) PeersChanged() {
	if s := r.running.Load(); s != nil {
		s.PeersChanged()
	}
}

// Run makes this worker a relay, until ctx ends. Its port is shown: the agent knows the address
// that others use for it.
func (r *Relay) Run(ctx context.Context) {
	c := &r.o.Config
	id := identity.New(filepath.Join(r.o.Dir, engineapi.IdentityDir), r.o.Revoked, r.o.Log)
	for {
		s, err := relay.Start(relay.Options{
			Listen: c.Relay.Listen, Ports: c.Relay.Ports, Rate: uint64(c.Relay.Rate), //nolint:gosec // never negative
			Name: c.Cluster + "/" + c.Worker, KeyFile: filepath.Join(r.o.Dir, relayKeyFile), TLS: id.ServerTLS,
			Worker: func(cs tls.ConnectionState, l wire.SignedLease) (wire.Lease, error) {
				return id.Verify(cs.PeerCertificates, l)
			},
			Refused: r.o.Revoked.Refuses,
			Log:     r.o.Log.With("part", "relay"),
		})
		r.o.Problems.Set("--relay", err)
		if err == nil {
			said := s.Describe([]string{s.Addr().String()})
			r.o.Board.SetInfo(func(i *engineapi.EngineInfo) { i.Network = withRelay(i.Network, &said) })
			r.running.Store(s)
			s.PeersChanged() // what changed before nobody told it
			<-ctx.Done()
			r.running.Store(nil)
			s.Close()
			return
		}
		t := time.NewTimer(relayAgain)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// withRelay is the state of the network of a worker that is a relay.
func withRelay(n *wire.NetworkInfo, r *wire.Relay) *wire.NetworkInfo {
	said := wire.NetworkInfo{Mode: wire.NetworkLoopback}
	if n != nil {
		said = *n
	}
	said.Relay = r
	return &said
}
