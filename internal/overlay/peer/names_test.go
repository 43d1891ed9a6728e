package peer

import (
	"crypto/x509"
	"testing"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/relay"
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
		{"edge", both, "w1"}, {"fog", far, "w-17"}, {"fog", far[:1], "w1"}, {"fog", append(both, far[0]), "w1"},
		{"fog", nil, "w1"},
	} {
		got := m.called(&x509.Certificate{DNSNames: c.names}, wire.Lease{Cluster: c.cluster, Worker: "w1"})
		if want := (id{c.cluster, c.want}); got != want {
			t.Errorf("of %s with %v: %v, want %v", c.cluster, c.names, got, want)
		}
	}
}

// A relay knows a worker of the own cluster by its other name: it is found by the
// number of its lease.
func TestWhoTheMailIsFrom(t *testing.T) {
	near, far := id{"edge", "w1"}, id{"fog", "w-17"}
	m := &Manager{peers: map[id]*known{
		near:           {acc: &accepted{lease: wire.Lease{Cluster: "edge", Worker: "w1", Number: 4}}},
		far:            {acc: &accepted{lease: wire.Lease{Cluster: "fog", Worker: "w1", Number: 5}}},
		{"edge", "w9"}: {},
	}}
	for _, c := range []struct {
		mail relay.Mail
		want id
	}{
		{relay.Mail{Cluster: "edge", Worker: "w-ab", Number: 4}, near},
		{relay.Mail{Cluster: "edge", Worker: "w1"}, near},
		{relay.Mail{Cluster: "fog", Worker: "w1"}, far},
		{relay.Mail{Cluster: "fog", Worker: "w-17", Number: 5}, far},
		{relay.Mail{Cluster: "fog", Worker: "w-ab", Number: 4}, id{"fog", "w-ab"}},
		{relay.Mail{Cluster: "edge", Worker: "w-cd"}, id{"edge", "w-cd"}},
	} {
		if got := m.namedLocked(c.mail); got != c.want {
			t.Errorf("%+v: %v, want %v", c.mail, got, c.want)
		}
	}
}
