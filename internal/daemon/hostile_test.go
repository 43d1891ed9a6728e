package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// rooted is a root with a cluster edge in this process.
func rooted(t *testing.T) *tiers {
	t.Helper()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	t.Cleanup(s.root.Close)
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	t.Cleanup(s.cluster.Close)
	return s
}

// signer is who certifies for the doors of a site.
type signer interface {
	Issue(r pki.LeafRequest, now time.Time) (chain string, err error)
}

func (s *tiers) signers() (ofRoot, ofCluster signer) {
	s.t.Helper()
	ca, err := pki.OpenAuthority(s.path("root"), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	edge, err := pki.OpenClusterAuthority(s.path("edge"))
	if err != nil {
		s.t.Fatal(err)
	}
	return ca, edge
}

// pairFor is a pair that an authority certified at a time, good for an hour.
func pairFor(t *testing.T, ca signer, who pki.Subject, made time.Time) tls.Certificate {
	t.Helper()
	dir := t.TempDir()
	public, err := pki.EnsureKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := ca.Issue(pki.LeafRequest{Subject: who, PublicKey: public, TTL: time.Hour}, made)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(dir + "/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(chain), key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Certificates that have expired, are not valid yet, or are of a root of the same
// name, with the right subject, open no door.
func TestBadCertificatesOpenNoDoor(t *testing.T) {
	s, twin := rooted(t), rooted(t)
	ofRoot, ofEdge := s.signers()
	twinRoot, twinEdge := twin.signers()
	link := func(addr, name string) func(tls.Certificate) error {
		return func(pair tls.Certificate) error {
			conn, err := tls.Dial("tcp", addr,
				&tls.Config{MinVersion: tls.VersionTLS13, ServerName: name, InsecureSkipVerify: true,
					Certificates: []tls.Certificate{pair}})
			if err != nil {
				return err
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = conn.Read(make([]byte, 1)) // the server speaks first
			return err
		}
	}
	ask := func(addr string) func(tls.Certificate) error {
		return func(pair tls.Certificate) error {
			tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true,
				Certificates: []tls.Certificate{pair}}}
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Get("https://" + addr + "/v1/me")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errors.New(string(body))
			}
			return err
		}
	}
	for door, c := range map[string]struct {
		open     func(tls.Certificate) error
		who      pki.Subject
		ca, twin signer
	}{
		"the root's interface": {ask(s.root.Addr()), pki.Subject{Role: pki.RoleAdmin, Name: "ann"}, ofRoot,
			twinRoot},
		"the cluster's interface": {ask(s.cluster.Addr()),
			pki.Subject{Role: pki.RoleAdmin, Cluster: "edge", Name: "ann"}, ofEdge, twinEdge},
		"the root's link": {link(s.root.Link()[0], pki.RootName),
			pki.Subject{Role: pki.RoleCluster, Cluster: "edge"}, ofEdge, twinEdge},
		"the cluster's link": {link(s.cluster.Link()[0], pki.ClusterName("edge")),
			pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: "w1"}, ofEdge, twinEdge},
	} {
		now := time.Now()
		if err := c.open(pairFor(t, c.ca, c.who, now)); err != nil {
			t.Errorf("%s, a good certificate: %v", door, err)
		}
		for what, pair := range map[string]tls.Certificate{
			"expired":                      pairFor(t, c.ca, c.who, now.Add(-2*time.Hour)),
			"not yet valid":                pairFor(t, c.ca, c.who, now.Add(48*time.Hour)),
			"of a root with the same name": pairFor(t, c.twin, c.who, now),
		} {
			if c.open(pair) == nil {
				t.Errorf("%s is open to a certificate that is %s", door, what)
			}
		}
	}
}

// Two roots have the same name, and clusters of the same name. What belongs to one
// of them does nothing at the other, and says so.
func TestTwoRootsWithTheSameName(t *testing.T) {
	s, twin := rooted(t), rooted(t)
	entry, err := client.ReadContext(s.path("root", "context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := client.ReadContext(twin.path("root", "context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if entry.Name != theirs.Name {
		t.Fatalf("they are called %s and %s", entry.Name, theirs.Name)
	}
	entry.Server = theirs.Server
	client, err := client.New(entry)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Applications.List(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "not from the authority that this context trusts") ||
		!strings.Contains(err.Error(), "→") {
		t.Errorf("a context at the other root: %v", err)
	}
	token, err := s.root.NewClusterToken(t.Context(), "fog")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokens.Parse(token)
	if err != nil {
		t.Fatal(err)
	}
	tok.Addrs = []string{twin.root.Addr()}
	_, err = cluster.Start(t.Context(), cluster.Options{
		Dir: s.path("fog"), TokenFile: "-", Stdin: strings.NewReader(tok.Encode()), LinkAddr: loopback,
		APIAddr: loopback, Log: s.log,
	})
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != "wrong-root" || p.Remedy == "" {
		t.Errorf("a token at the other root: %v", err)
	}
	if _, err := os.Stat(s.path("fog", "joined.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the refused join left an identity: %v", err)
	}
	if list := clustersOf(t, twin.root); len(list) != 1 {
		t.Errorf("the other root has %v", list)
	}
}

func clustersOf(t *testing.T, r *root.Root) (names []string) {
	t.Helper()
	entry, err := client.ReadContext(r.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	client, err := client.New(entry)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.Clusters.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

func publicOf(cert []byte) ([]byte, error) {
	c, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, err
	}
	return c.RawSubjectPublicKeyInfo, nil
}

// busKey is the public key for the bus of a node.
func (s *tiers) busKey(path ...string) string {
	s.t.Helper()
	key, err := enroll.Key(s.path(path...))
	if err != nil {
		s.t.Fatal(err)
	}
	return key.Public()
}

// A key belongs to the node that joined with it: under another name it is refused,
// since what is done about one of them would be done to the other.
func TestNobodyJoinsWithTheKeyOfAnother(t *testing.T) {
	s := rooted(t)
	worker, err := s.cluster.NewWorkerToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := s.startWorker(worker)
	defer func() { _ = stop() }()
	s.eventually("all are there", s.connected)
	public := func(path ...string) []byte {
		t.Helper()
		text, err := os.ReadFile(s.path(path...))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		public, err := publicOf(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return public
	}
	join := func(addr, server, text string, r rpc.JoinRequest) string {
		t.Helper()
		tok, err := tokens.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r.V, r.Token = wire.Version, text
		_, err = nodeclient.JoinAt(t.Context(), []string{addr}, pki.PinnedClient(tok.Pins(), server, time.Now), r)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Remedy == "" {
			t.Errorf("%v", err)
			return ""
		}
		return p.Code
	}
	own := t.TempDir()
	mine, err := pki.EnsureKey(own)
	if err != nil {
		t.Fatal(err)
	}
	if worker, err = s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirs := public("w1", engineapi.IdentityDir, "identity.pem")
	for what, c := range map[string]struct {
		r    rpc.JoinRequest
		code string
	}{
		"the key of another": {rpc.JoinRequest{Name: "w2", PublicKey: theirs, NatsKey: "U"}, "key-taken"},
		"the bus key of another": {rpc.JoinRequest{Name: "w2", PublicKey: mine,
			NatsKey: s.busKey("w1", engineapi.IdentityDir)}, "key-taken"},
		"the name of another": {rpc.JoinRequest{Name: "w1", PublicKey: mine, NatsKey: "U"}, "name-taken"},
		"no name":             {rpc.JoinRequest{Name: "../w1", PublicKey: mine, NatsKey: "U"}, "bad-name"},
		"no key":              {rpc.JoinRequest{Name: "w2", PublicKey: []byte("x"), NatsKey: "U"}, "bad-key"},
	} {
		if got := join(s.cluster.Addr(), pki.ClusterName("edge"), worker, c.r); got != c.code {
			t.Errorf("a worker with %s: %s, want %s", what, got, c.code)
		}
	}
	for _, name := range []string{"", "Fog", "a.b", "-fog", "fog-", "föhn", "../fog", strings.Repeat("x", 64)} {
		var p *wire.Problem
		if _, err := s.root.NewClusterToken(t.Context(), name); !errors.As(err, &p) || p.Code != "bad-name" ||
			p.Remedy == "" {
			t.Errorf("a token for cluster %q: %v", name, err)
		}
	}
	fog, err := s.root.NewClusterToken(t.Context(), "fog")
	if err != nil {
		t.Fatal(err)
	}
	if got := join(s.root.Addr(), pki.RootName, fog,
		rpc.JoinRequest{Name: "fog", PublicKey: public("edge", "cluster-ca.pem"), NatsKey: "U"}); got != "key-taken" {
		t.Errorf("a cluster with the key of another: %s", got)
	}
	if list := clustersOf(t, s.root); len(list) != 1 {
		t.Errorf("the root has %v", list)
	}

	// Two tokens for one name: who comes second is refused, and the first is it.
	second, err := s.root.NewClusterToken(t.Context(), "fog")
	if err != nil {
		t.Fatal(err)
	}
	for n, token := range []string{fog, second} {
		dir := t.TempDir()
		public, err := pki.EnsureClusterKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		key, err := enroll.Key(dir)
		if err != nil {
			t.Fatal(err)
		}
		r := rpc.JoinRequest{Name: "fog", PublicKey: public, NatsKey: key.Public()}
		if n == 1 {
			if got := join(s.root.Addr(), pki.RootName, token, r); got != "name-taken" {
				t.Errorf("a second cluster fog: %s", got)
			}
			continue
		}
		tok, err := tokens.Parse(token)
		if err != nil {
			t.Fatal(err)
		}
		r.V, r.Token = wire.Version, token
		if _, err := nodeclient.JoinAt(t.Context(), []string{s.root.Addr()},
			pki.PinnedClient(tok.Pins(), pki.RootName, time.Now), r); err != nil {
			t.Fatal(err)
		}
	}
	if list := clustersOf(t, s.root); len(list) != 2 {
		t.Errorf("the root has %v", list)
	}
}
