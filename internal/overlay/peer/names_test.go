package peer

import (
	"crypto/x509"
	"testing"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// Routes have the name of the lease for workers of the own cluster, and the other one
// of the certificate for those of others.
func TestNameOfAWorkerInRoutes(t *testing.T) {
	m := &Manager{opts: Options{Cluster: "edge", PeerName: pki.WorkerName}}
	both := []string{pki.WorkerName("edge", "w1"), pki.WorkerName("edge", "w-17")}
	far := []string{pki.WorkerName("fog", "w1"), pki.WorkerName("fog", "w-17")}
	for _, c := range []struct {
		cluster string
		names   []string
		want    string
	}{
		{"edge", both, "w1"}, {"fog", far, "w-17"}, {"fog", far[:1], "w1"}, {"fog", append(both, far[0]), "w1"}, {"fog", nil, "w1"},
	} {
		got := m.called(&x509.Certificate{DNSNames: c.names}, wire.Lease{Cluster: c.cluster, Worker: "w1"})
		if want := (id{c.cluster, c.want}); got != want {
			t.Errorf("of %s with %v: %v, want %v", c.cluster, c.names, got, want)
		}
	}
}
