package engine

import (
	"net/netip"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

func TestPathsInTheServiceNetwork(t *testing.T) {
	port := wire.NetPeer{Path: wire.PathDirect, Via: "data port"}
	away := wire.NetPeer{Path: wire.PathNone, Why: "connection refused"}
	for _, c := range []struct {
		name string
		peer wire.NetPeer
		path wire.Path
		want wire.NetPeer
	}{
		{"direct", away, wire.Path{Path: wire.PathDirect, Endpoint: netip.MustParseAddrPort("192.0.2.7:8476")}, wire.NetPeer{Path: wire.PathDirect, Via: "WireGuard to 192.0.2.7:8476"}},
		{"relay", port, wire.Path{Path: wire.PathRelay, Relay: "root", Why: "no answer"}, wire.NetPeer{Path: wire.PathRelay, Via: "WireGuard through relay root", Why: "no answer"}},
		{"only the data port", port, wire.Path{Path: wire.PathNone, Why: "no answer"}, wire.NetPeer{Path: wire.PathDirect, Via: "data port", Why: "no answer"}},
		{"none", away, wire.Path{Path: wire.PathNone, Why: "no answer"}, away},
	} {
		got := c.peer
		inNetwork(&got, c.path)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
