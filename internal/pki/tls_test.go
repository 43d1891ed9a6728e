package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"
)

const requireClient = tls.RequireAndVerifyClientCert

func atNow() time.Time { return now }

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	edge, fog := newCluster(t, root, "edge"), newCluster(t, root, "fog")
	rootSrv := newNode(t, t.TempDir(), root, Subject{Role: RoleRoot})
	edgeSrv := newNode(t, t.TempDir(), edge, Subject{RoleCluster, "edge", ""})
	w1 := newNode(t, t.TempDir(), edge, Subject{RoleWorker, "edge", "w1"})
	w2 := newNode(t, t.TempDir(), fog, Subject{RoleWorker, "fog", "w2"})

	for _, tt := range []struct {
		server, client *Identity
		name           string
	}{
		{rootSrv, edgeSrv, RootName},
		{edgeSrv, w1, ClusterName("edge")},
		{w1, w2, WorkerName("edge", "w1")},
		{w2, w1, WorkerName("fog", "w2")},
	} {
		srv, cli, srvErr, cliErr := handshake(t, tt.server.ServerTLS(requireClient), tt.client.ClientTLS(tt.name))
		if srvErr != nil || cliErr != nil {
			t.Errorf("%v to %v: %v, %v", tt.client.Subject(), tt.server.Subject(), srvErr, cliErr)
			continue
		}
		if s, err := PeerSubject(srv); err != nil || s != tt.client.Subject() {
			t.Errorf("server takes %v for %v, %v", tt.client.Subject(), s, err)
		}
		if s, err := SubjectOf(cli.PeerCertificates[0]); err != nil || s != tt.server.Subject() {
			t.Errorf("client takes %v for %v, %v", tt.server.Subject(), s, err)
		}
		if srv.Version != tls.VersionTLS13 {
			t.Errorf("TLS version %x", srv.Version)
		}
	}

	// Every handshake is a full one, also with a client that asks for less.
	again := w1.ClientTLS(ClusterName("edge"))
	again.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	again.SessionTicketsDisabled = false
	sameServer := edgeSrv.ServerTLS(requireClient)
	for range 2 {
		if _, cli, _, err := handshake(t, sameServer, again); err != nil || cli.DidResume {
			t.Errorf("resumed: %v, %v", cli.DidResume, err)
		}
	}

	// One configuration for both directions.
	cfg := w1.ServerTLS(requireClient).Clone()
	cfg.ServerName = WorkerName("fog", "w2")
	if _, _, srvErr, cliErr := handshake(t, w2.ServerTLS(requireClient), cfg); srvErr != nil || cliErr != nil {
		t.Errorf("as a client: %v, %v", srvErr, cliErr)
	}
}

func TestTLSRefuses(t *testing.T) {
	t.Parallel()
	root, other := newRoot(t), newRoot(t)
	edge := newCluster(t, root, "edge")
	w1 := newNode(t, t.TempDir(), edge, Subject{RoleWorker, "edge", "w1"})
	rootSrv := newNode(t, t.TempDir(), root, Subject{Role: RoleRoot})
	stranger := newNode(t, t.TempDir(), other, Subject{Role: RoleRoot})

	_, _, _, err := handshake(t, w1.ServerTLS(requireClient), rootSrv.ClientTLS(ClusterName("edge")))
	if !errors.As(err, new(x509.HostnameError)) || !strings.Contains(Explain(err, now).Error(), "check the address") {
		t.Errorf("a worker that poses as its cluster: %v", err)
	}
	_, _, _, err = handshake(t, stranger.ServerTLS(requireClient), w1.ClientTLS(RootName))
	if !errors.As(err, new(x509.UnknownAuthorityError)) || !strings.Contains(Explain(err, now).Error(), "another root") {
		t.Errorf("another root: %v", err)
	}
	_, _, err, _ = handshake(t, rootSrv.ServerTLS(requireClient), func() *tls.Config {
		c := stranger.ClientTLS(RootName)
		c.VerifyConnection = nil // it trusts us, we don't trust it
		return c
	}())
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("client of another root: %v", err)
	}
	bearer := must(BearerTLS(root.PEM(), RootName))(t)
	bearer.Time = atNow
	if _, _, err, _ = handshake(t, rootSrv.ServerTLS(requireClient), bearer); err == nil {
		t.Error("no certificate where one is required")
	}
	srv, _, srvErr, cliErr := handshake(t, rootSrv.ServerTLS(tls.VerifyClientCertIfGiven), bearer)
	if srvErr != nil || cliErr != nil {
		t.Errorf("no certificate where none is required: %v, %v", srvErr, cliErr)
	}
	if s, err := PeerSubject(srv); err == nil {
		t.Errorf("no certificate, yet the subject %v", s)
	}
	old := w1.ClientTLS(RootName)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err, _ = handshake(t, rootSrv.ServerTLS(requireClient), old); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
	if _, err := BearerTLS("rubbish", RootName); err == nil {
		t.Error("rubbish as root CA")
	}
	if _, err := BearerTLS("", RootName); err == nil {
		t.Error("an empty root CA")
	}
}

func TestPinnedClient(t *testing.T) {
	t.Parallel()
	root, other := newRoot(t), newRoot(t)
	edge := newCluster(t, root, "edge")
	rootSrv := newNode(t, t.TempDir(), root, Subject{Role: RoleRoot})
	edgeSrv := newNode(t, t.TempDir(), edge, Subject{RoleCluster, "edge", ""})
	stranger := newNode(t, t.TempDir(), other, Subject{Role: RoleRoot})
	join := func(server *Identity, pin, name string, clock func() time.Time) error {
		_, _, _, err := handshake(t, server.ServerTLS(tls.VerifyClientCertIfGiven), PinnedClient([]string{pin}, name, clock))
		return err
	}
	if err := join(rootSrv, root.Pin(), RootName, atNow); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := join(edgeSrv, root.Pin(), ClusterName("edge"), atNow); err != nil {
		t.Errorf("cluster, by the root's pin: %v", err)
	}
	err := join(stranger, root.Pin(), RootName, atNow)
	if !errors.Is(err, ErrWrongRoot) || !strings.Contains(err.Error(), "verge token create") {
		t.Errorf("another root: %v, want ErrWrongRoot with a remedy", err)
	}
	// The pin of a certificate that is no root authority counts for nothing.
	if err := join(edgeSrv, pinOf(edge.Cert()), ClusterName("edge"), atNow); !errors.Is(err, ErrWrongRoot) {
		t.Errorf("pin of an intermediate: %v", err)
	}
	if err := join(edgeSrv, root.Pin(), RootName, atNow); !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("a cluster that poses as the root: %v", err)
	}
	late := func() time.Time { return now.Add(2 * LeafTTL) }
	if err := join(rootSrv, root.Pin(), RootName, late); !errors.As(err, new(x509.CertificateInvalidError)) {
		t.Errorf("expired: %v", err)
	}
	if err := join(rootSrv, root.Pin(), RootName, func() time.Time { return time.Unix(0, 0) }); err == nil || !strings.Contains(err.Error(), "set the clock") {
		t.Errorf("clock in 1970: %v", err)
	}

	// A server that shows the right CA, which everyone can have, beside a
	// certificate of its own.
	liar := stranger.ServerTLS(tls.NoClientCert)
	liar.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := *stranger.current.Load().server
		c.Certificate = append(append([][]byte{}, c.Certificate...), root.certs()[0].Raw)
		return &c, nil
	}
	_, _, _, err = handshake(t, liar, PinnedClient([]string{root.Pin()}, RootName, atNow))
	if !errors.Is(err, ErrWrongRoot) {
		t.Errorf("borrowed CA: %v, want ErrWrongRoot", err)
	}
}

func TestExplainLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	err := errors.New("connection refused")
	if Explain(err, now) != err || //nolint:errorlint // the very same is wanted
		Explain(nil, now) != nil {
		t.Error("an error that has nothing to do with certificates was changed")
	}
}

// A server and a client that were configured before a rotation of the authority
// follow it, in every order in which they can hear of it.
func TestLiveConfigurationsFollowARotation(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	edge := newCluster(t, root, "edge")
	serverDir, clientDir := t.TempDir(), t.TempDir()
	server := newNode(t, serverDir, edge, Subject{RoleCluster, "edge", ""})
	client := newNode(t, clientDir, edge, Subject{RoleWorker, "edge", "w1"})
	sc, cc := server.LiveServerTLS(requireClient, nil), client.ClientTLS(ClusterName("edge"))
	oldPin := []string{root.Pin()}
	meet := func(what string) {
		t.Helper()
		if _, _, srvErr, cliErr := handshake(t, sc, cc); srvErr != nil || cliErr != nil {
			t.Errorf("%s: server says %v, client %v", what, srvErr, cliErr)
		}
	}
	// follow is what a renewal does for the cluster and for a node.
	followCluster := func() {
		t.Helper()
		chain := must(root.SignCluster(edge.PublicKey(), "edge", now))(t)
		if err := SaveCluster(edge.dir, chain, root.PEM()); err != nil {
			t.Fatal(err)
		}
		if err := edge.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(id *Identity) {
		t.Helper()
		chain := must(edge.Issue(LeafRequest{Subject: id.Subject(), PublicKey: id.Leaf().RawSubjectPublicKeyInfo}, now))(t)
		if err := SaveIdentity(id.dir, chain, edge.PEM()); err != nil {
			t.Fatal(err)
		}
		if err := id.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	meet("before")
	if err := root.Rotate(now); err != nil {
		t.Fatal(err)
	}
	followCluster()
	follow(server)
	meet("the server is ahead")
	if client.TrustID() == server.TrustID() || edge.TrustID() != root.TrustID() {
		t.Error("the trust of those who have not followed is not told from that of those who have")
	}
	pinned := func(pins []string) error {
		_, _, _, err := handshake(t, sc, PinnedClient(pins, ClusterName("edge"), atNow))
		return err
	}
	nodePinned := func(pins []string) bool { return !errors.Is(pinned(pins), ErrWrongRoot) }
	if !nodePinned(oldPin) || !nodePinned([]string{root.NextPin()}) || !nodePinned([]string{root.Pin(), root.NextPin()}) {
		t.Error("a token does not work while the authority is rotated")
	}
	follow(client)
	meet("both have followed")
	if err := root.Finish(); err != nil {
		t.Fatal(err)
	}
	meet("finished at the root alone")
	followCluster()
	follow(client)
	meet("the client is ahead")
	follow(server)
	meet("finished")
	if nodePinned(oldPin) {
		t.Error("a token of the old authority still works")
	}
	if edge.TrustID() != client.TrustID() || edge.NextPin() != "" || len(client.CAPEM()) != len(root.PEM()) {
		t.Error("the old authority is still trusted")
	}
	// Who did not follow is locked out, and told why.
	late := newNode(t, t.TempDir(), newCluster(t, newRoot(t), "edge"), Subject{RoleWorker, "edge", "w1"})
	if _, _, _, err := handshake(t, sc, late.ClientTLS(ClusterName("edge"))); err == nil || !strings.Contains(err.Error(), "another root") {
		t.Errorf("who trusts another authority: %v", err)
	}
}

func TestAdmitSeesWhoIsVerified(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	edge := newCluster(t, root, "edge")
	server := newNode(t, t.TempDir(), edge, Subject{RoleCluster, "edge", ""})
	client := newNode(t, t.TempDir(), edge, Subject{RoleWorker, "edge", "w1"})
	refusal := errors.New("not you")
	var seen []Subject
	sc := server.LiveServerTLS(tls.VerifyClientCertIfGiven, func(cs tls.ConnectionState) error {
		s, err := PeerSubject(cs)
		seen = append(seen, s)
		return errors.Join(err, refusal)
	})
	if _, _, err, _ := handshake(t, sc, client.ClientTLS(ClusterName("edge"))); !errors.Is(err, refusal) {
		t.Errorf("refused with %v", err)
	}
	bearer := must(BearerTLS(root.PEM(), ClusterName("edge")))(t)
	bearer.Time = atNow
	if _, _, srvErr, cliErr := handshake(t, sc, bearer); srvErr != nil || cliErr != nil {
		t.Errorf("without a certificate: %v, %v", srvErr, cliErr)
	}
	if len(seen) != 1 || seen[0] != client.Subject() {
		t.Errorf("asked about %v", seen)
	}
}
