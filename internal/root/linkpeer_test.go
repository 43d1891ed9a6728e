package root

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"testing"
)

// The bus accepts the token of a cluster only from the cluster itself.
func TestLinkPeer(t *testing.T) {
	for uri, want := range map[string]string{
		"verge://edge.cluster.verge.internal/cluster":   "edge",
		"verge://edge.cluster.verge.internal/worker/w1": "",
		"verge://edge.cluster.verge.internal/plugin/w1": "",
		"verge://edge.cluster.verge.internal/admin/ann": "",
		"verge://root.verge.internal/root":              "",
		"verge://root.verge.internal/cluster":           "",
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		got, err := linkPeer(tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{URIs: []*url.URL{u}}}}})
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: %q, %v", uri, got, err)
		}
	}
	if got, err := linkPeer(tls.ConnectionState{}); err == nil {
		t.Errorf("no certificate: %q", got)
	}
}
