package proximity

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestPathsInTheServiceNetwork(t *testing.T) {
	port := rpc.NetPeer{Path: wire.PathDirect, Via: "data port"}
	away := rpc.NetPeer{Path: wire.PathNone, Why: "connection refused"}
	for _, c := range []struct {
		name string
		peer rpc.NetPeer
		path peer.Path
		want rpc.NetPeer
	}{
		{"direct", away, peer.Path{Path: wire.PathDirect, Endpoint: netip.MustParseAddrPort("192.0.2.7:8476")},
			rpc.NetPeer{Path: wire.PathDirect, Via: "WireGuard to 192.0.2.7:8476"}},
		{"relay", port, peer.Path{Path: wire.PathRelay, Relay: "root", Why: "no answer"},
			rpc.NetPeer{Path: wire.PathRelay, Via: "WireGuard through relay root", Why: "no answer"}},
		{"only the data port", port, peer.Path{Path: wire.PathNone, Why: "no answer"},
			rpc.NetPeer{Path: wire.PathDirect, Via: "data port", Why: "no answer"}},
		{"none", away, peer.Path{Path: wire.PathNone, Why: "no answer"}, away},
	} {
		got := c.peer
		inNetwork(&got, c.path)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What packets of instances take is measured, where there is such a path; a worker
// without a data port for others has a distance by it alone.
func TestDistanceOverTheTunnel(t *testing.T) {
	there := true
	d := &Distances{tunnel: func(_ context.Context, cluster, worker string) (time.Duration, bool) {
		return 7 * time.Millisecond, there && cluster+"/"+worker == "edge/w2"
	}}
	d.router = mustRouter(t)
	p := distance.Peer{Cluster: "edge", Worker: "w2"}
	rtt, answer, err := d.Measure(t.Context(), p, nil)
	if rtt != 7*time.Millisecond || answer != nil || err != nil || d.measuredOver(p.Key()) != rpc.OverTunnel {
		t.Errorf("%v, %q, %v, over %s", rtt, answer, err, d.measuredOver(p.Key()))
	}
	// Its data port does not answer, its path does.
	p.Address = "127.0.0.1:1"
	if rtt, _, err := d.Measure(t.Context(), p, nil); rtt != 7*time.Millisecond || err != nil {
		t.Errorf("%v, %v", rtt, err)
	}
	there = false
	if _, _, err := d.Measure(t.Context(), p, nil); err == nil || d.measuredOver(p.Key()) != rpc.OverData {
		t.Errorf("nobody answers: %v, over %s", err, d.measuredOver(p.Key()))
	}
}

func mustRouter(t *testing.T) *proxy.Router {
	t.Helper()
	r, err := proxy.New(proxy.Options{
		Worker: "w1", Cluster: "edge", Local: nobody{}, Log: slog.New(slog.DiscardHandler),
		StateFile: filepath.Join(t.TempDir(), "state"),
		TLS:       func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS13}, nil },
		PeerName:  pki.WorkerName,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// nobody has no instances.
type nobody struct{}

func (nobody) Target(wire.InstanceID, string) (string, error) { return "", proxy.ErrNoInstance }
func (nobody) Wake(wire.InstanceID)                           {}
