package engine

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/engine/identity"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
)

// relayKeyFile is the WireGuard key of the relay, in the data directory.
const relayKeyFile = "relay.key"

// relayAgain is when a relay that could not begin is tried again: its address may
// not be there yet.
const relayAgain = 10 * time.Second

// relay lets this worker be a relay, until ctx ends. Where it listens is shown: the
// agent knows by which address others reach that.
func (e *Engine) relay(ctx context.Context) {
	k := e.kit
	dir := filepath.Join(k.dir, wire.IdentityDir)
	id := identity.New(dir, &e.revoked, k.log)
	for {
		s, err := relay.Start(relay.Options{
			Listen: k.config.Relay.Listen, Ports: k.config.Relay.Ports, Rate: uint64(k.config.Relay.Rate), //nolint:gosec // never negative
			Name: k.config.Cluster + "/" + k.config.Worker, KeyFile: filepath.Join(k.dir, relayKeyFile), TLS: id.ServerTLS,
			Worker: func(cs tls.ConnectionState, l wire.SignedLease) (wire.Lease, error) {
				return id.Verify(cs.PeerCertificates, l)
			},
			Refused: e.revoked.Refuses,
			Log:     k.log.With("part", "relay"),
		})
		k.problems.Set("--relay", err)
		if err == nil {
			said := s.Describe([]string{s.Addr().String()})
			e.board.SetInfo(func(i *wire.EngineInfo) { i.Network = withRelay(i.Network, &said) })
			e.relaying.Store(s)
			s.PeersChanged() // what changed before nobody told it
			<-ctx.Done()
			e.relaying.Store(nil)
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

// withRelay is what is said of the network by a worker that is a relay.
func withRelay(n *wire.NetworkInfo, r *wire.Relay) *wire.NetworkInfo {
	said := wire.NetworkInfo{Mode: wire.NetworkLoopback}
	if n != nil {
		said = *n
	}
	said.Relay = r
	return &said
}
