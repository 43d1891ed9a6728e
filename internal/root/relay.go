package root

import (
	"crypto/tls"
	"fmt"
	"path/filepath"

	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// RelayName is the name of the relay on the root's host.
const RelayName = "root"

// relayKeyFile is the WireGuard key of the root's relay, in the data directory.
const relayKeyFile = "relay.key"

// serveRelay runs the relay of the root's host, where one is wanted, and has all
// clusters told of it.
func (r *Root) serveRelay() error {
	if r.opts.Relay.Listen == "" {
		return nil
	}
	s, err := relay.Start(relay.Options{
		Listen: r.opts.Relay.Listen, Name: RelayName, KeyFile: filepath.Join(r.opts.Dir, relayKeyFile),
		Ports: r.opts.Relay.Ports, Rate: uint64(r.opts.Relay.Rate), //nolint:gosec // never negative
		TLS: func() (*tls.Config, error) { return r.id.ServerTLS(tls.RequireAndVerifyClientCert), nil },
		Worker: func(cs tls.ConnectionState, l wire.SignedLease) (wire.Lease, error) {
			return r.id.VerifyLease(cs.PeerCertificates, l)
		},
		Refused: r.Barred.Refuses,
		Log:     r.Logger.With("part", "relay"),
	})
	if err != nil {
		return fmt.Errorf("--relay: %w", err)
	}
	r.relay = s
	core.Do(r.Core, func(*state.Model) {
		r.Relayed = s.PeersChanged
		s.PeersChanged() // what changed before nobody told it
	})
	said := s.Describe(enroll.Reachable(r.opts.Advertise, s.Addr().String()))
	r.SetRelay(&said)
	return nil
}

// SetRelay says that the root's host runs a relay, which all clusters are told of;
// nil: it runs none.
func (r *Root) SetRelay(relay *wire.Relay) {
	core.Do(r.Core, func(m *state.Model) { netlease.Memory(m).Relay = relay })
	loop.Poke(r.Wake)
}
