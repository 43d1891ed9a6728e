package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	if got := ClusterName("edge"); got != "edge.cluster.verge.internal" {
		t.Error(got)
	}
	if got := WorkerName("edge", "w1"); got != "w1.edge.cluster.verge.internal" {
		t.Error(got)
	}
}

func TestSubjectRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s         Subject
		uri, text string
	}{
		{Subject{Role: RoleRoot}, "verge://root.verge.internal/root", "root"},
		{Subject{Role: RoleAdmin, Name: "ann"}, "verge://root.verge.internal/admin/ann", "admin/ann"},
		{Subject{RoleCluster, "edge", ""}, "verge://edge.cluster.verge.internal/cluster", "cluster/edge"},
		{Subject{RoleWorker, "edge", "w-1"}, "verge://edge.cluster.verge.internal/worker/w-1", "worker/edge/w-1"},
		{Subject{RoleAdmin, "edge", "ann"}, "verge://edge.cluster.verge.internal/admin/ann", "admin/edge/ann"},
	} {
		if err := tt.s.Validate(); err != nil {
			t.Errorf("%s: %v", tt.s, err)
		}
		if tt.s.uri().String() != tt.uri || tt.s.String() != tt.text {
			t.Errorf("%#v is %s and %s, want %s and %s", tt.s, tt.s.uri(), tt.s, tt.uri, tt.text)
		}
		u := must(url.Parse(tt.uri))(t)
		if got, err := SubjectOf(&x509.Certificate{URIs: []*url.URL{u}}); err != nil || got != tt.s {
			t.Errorf("subject of %s is %v, %v", tt.uri, got, err)
		}
	}
}

func TestSubjectOfRefuses(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"https://root.verge.internal/root",
		"verge://root.verge.internal/",
		"verge://root.verge.internal",
		"verge://root.verge.internal/king",
		"verge://root.verge.internal/root/extra",
		"verge://root.verge.internal/root/",
		"verge://root.verge.internal/admin",
		"verge://root.verge.internal/admin/",
		"verge://root.verge.internal/admin/a/b",
		"verge://root.verge.internal/admin/a%2Fb",
		"verge://root.verge.internal/cluster",
		"verge://root.verge.internal/worker/w1",
		"verge://root.verge.internal:443/root",
		"verge://user@root.verge.internal/root",
		"verge://ROOT.verge.internal/root",
		"verge://root.verge.internal/root?x=1",
		"verge://root.verge.internal/root#x",
		"verge://root.verge.internal//root",
		"verge://evil.internal/root",
		"verge://edge.cluster.verge.internal/root",
		"verge://Edge.cluster.verge.internal/cluster",
		"verge://a.b.cluster.verge.internal/cluster",
		"verge://.cluster.verge.internal/cluster",
		"verge://cluster.verge.internal/cluster",
		"verge://edge/cluster",
		"verge://edge.cluster.verge.internal.evil.org/cluster",
		"verge://edge.cluster.verge.internal/cluster/x",
		"verge://edge.cluster.verge.internal/worker",
		"verge://edge.cluster.verge.internal/worker/W1",
		"verge://edge.cluster.verge.internal/worker/-w",
		"verge://edge.cluster.verge.internal/worker/" + strings.Repeat("a", 64),
		"verge:root",
	} {
		u := must(url.Parse(uri))(t)
		if s, err := SubjectOf(&x509.Certificate{URIs: []*url.URL{u}}); err == nil {
			t.Errorf("%s is taken for %v", uri, s)
		}
	}
	good := must(url.Parse("verge://root.verge.internal/root"))(t)
	for what, c := range map[string]*x509.Certificate{
		"no subject":   {},
		"two subjects": {URIs: []*url.URL{good, good}},
		"an authority": {URIs: []*url.URL{good}, IsCA: true},
	} {
		if _, err := SubjectOf(c); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	// What was sent but not verified proves nothing.
	leaf := &x509.Certificate{URIs: []*url.URL{good}}
	if _, err := PeerSubject(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}); err == nil {
		t.Error("an unverified certificate is accepted")
	}
}
