package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestIdentityOnDisk(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	c := newCluster(t, root, "edge")
	dir := filepath.Join(t.TempDir(), "id")
	if _, err := LoadIdentity(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v, want os.ErrNotExist", err)
	}
	pub := must(EnsureKey(dir))(t)
	if again := must(EnsureKey(dir))(t); string(again) != string(pub) {
		t.Error("the second call made another key")
	}
	if fi := must(os.Stat(filepath.Join(dir, nodeKeyFile)))(t); fi.Mode().Perm() != 0o600 {
		t.Errorf("key has mode %v", fi.Mode().Perm())
	}
	// A crash before the reply came: the key is there, the identity is not.
	if _, err := LoadIdentity(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with a key only: %v, want os.ErrNotExist", err)
	}
	s := Subject{RoleWorker, "edge", "w1"}
	chain := must(c.Issue(LeafRequest{Subject: s, PublicKey: pub}, now))(t)
	_, otherPub := testKey(t)
	otherKey := must(c.Issue(LeafRequest{Subject: s, PublicKey: otherPub}, now))(t)
	leafOnly := certPEM(parseCerts(t, chain)[0])
	for what, in := range map[string][2]string{
		"for another key":      {otherKey, root.PEM()},
		"under another root":   {chain, newRoot(t).PEM()},
		"without intermediate": {leafOnly, root.PEM()},
		"without root":         {chain, ""},
		"cut off":              {chain[:len(chain)-40], root.PEM()},
		"rubbish":              {"rubbish", "rubbish"},
	} {
		if err := SaveIdentity(dir, in[0], in[1]); err == nil {
			t.Errorf("%s: stored", what)
		}
		if _, err := LoadIdentity(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was stored: %v", what, err)
		}
	}
	if err := SaveIdentity(dir, chain, root.PEM()); err != nil {
		t.Fatal(err)
	}
	id := must(LoadIdentity(dir))(t)
	if id.Subject() != s || id.RootID() != root.ID() || id.CAPEM() != root.PEM() {
		t.Errorf("identity of %v under %s", id.Subject(), id.RootID())
	}
	if want := now.Add(LeafTTL / 2); !id.RenewAt().Equal(want) {
		t.Errorf("renew at %v, want half life %v", id.RenewAt(), want)
	}

	path := filepath.Join(dir, identityFile)
	good := must(os.ReadFile(path))(t)
	eachDamage(t, path, func(what string) {
		got, err := LoadIdentity(dir)
		if err == nil && got.Leaf().Equal(id.Leaf()) && got.CAPEM() == id.CAPEM() {
			return
		}
		if what == "too large" {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		wantDamage(t, what, err, path)
	})
	keyPath := filepath.Join(dir, nodeKeyFile)
	eachDamage(t, keyPath, func(what string) {
		if got, err := LoadIdentity(dir); err == nil && !got.Leaf().Equal(id.Leaf()) || err != nil && errors.Is(err, os.ErrNotExist) {
			t.Errorf("key %s: %v", what, err)
		}
		if what == "cut off" {
			_, err := EnsureKey(dir)
			wantDamage(t, "key "+what, err, keyPath)
		}
	})
	if err := os.Remove(keyPath); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadIdentity(dir); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), keyPath) {
		t.Errorf("without its key: %v, want an error that names %s", err, keyPath)
	}
	if after := must(os.ReadFile(path))(t); string(after) != string(good) {
		t.Error("loading changed the file")
	}
}

func TestOldIdentityIsLoadedButNotAccepted(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	dir := t.TempDir()
	server := newNode(t, dir, root, Subject{Role: RoleRoot})
	client := newNode(t, t.TempDir(), newCluster(t, root, "edge"), Subject{RoleCluster, "edge", ""})
	// The identity is readable whatever the time is; see LoadIdentity above.
	client.Clock = stopped(now.Add(LeafTTL + day))
	_, _, _, err := handshake(t, server.ServerTLS(requireClient), client.ClientTLS(RootName))
	if err == nil {
		t.Fatal("an expired server is accepted")
	}
	if text := Explain(err, client.Clock.Now()).Error(); !strings.Contains(text, "renew") {
		t.Errorf("expired: %q does not say to renew", text)
	}
	client.Clock = stopped(time.Unix(0, 0))
	_, _, _, err = handshake(t, server.ServerTLS(requireClient), client.ClientTLS(RootName))
	if err == nil {
		t.Fatal("a certificate from the future is accepted")
	}
	if text := Explain(err, client.Clock.Now()).Error(); !strings.Contains(text, "set the clock") || !strings.Contains(text, "1970") {
		t.Errorf("clock in 1970: %q does not say to set it", text)
	}
	// The server judges by its own clock.
	client.Clock = stopped(now)
	server.Clock = stopped(now.Add(LeafTTL + day))
	_, _, srvErr, _ := handshake(t, server.ServerTLS(requireClient), client.ClientTLS(RootName))
	if !errors.As(srvErr, new(x509.CertificateInvalidError)) {
		t.Errorf("expired client: server says %v", srvErr)
	}
}

// Handshakes go on while the certificate is renewed again and again: each sees
// the old or the new one, none fails.
func TestReloadDuringHandshakes(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	dir := t.TempDir()
	server := newNode(t, dir, root, Subject{Role: RoleRoot})
	client := newNode(t, t.TempDir(), root, Subject{Role: RoleAdmin, Name: "ann"})
	srvCfg, cliCfg := server.ServerTLS(requireClient), client.ClientTLS(RootName)
	before := server.Leaf()

	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 10 {
				if _, _, srvErr, cliErr := handshake(t, srvCfg, cliCfg); srvErr != nil || cliErr != nil {
					t.Errorf("handshake: %v, %v", srvErr, cliErr)
					return
				}
			}
		})
	}
	pub := must(EnsureKey(dir))(t)
	for i := range 10 {
		chain := must(root.Issue(LeafRequest{Subject: Subject{Role: RoleRoot}, PublicKey: pub}, now.Add(time.Duration(i)*time.Hour)))(t)
		if err := SaveIdentity(dir, chain, root.PEM()); err != nil {
			t.Error(err)
		}
		if err := server.Reload(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if server.Leaf().Equal(before) {
		t.Fatal("the renewed certificate was not picked up")
	}
	// A configuration that was made before shows the new certificate.
	_, cli, _, err := handshake(t, srvCfg, cliCfg)
	if err != nil {
		t.Fatal(err)
	}
	if !cli.PeerCertificates[0].Equal(server.Leaf()) {
		t.Error("an old configuration sends the old certificate")
	}

	// What cannot be used does not replace what is in use.
	renewed := server.Leaf()
	writeFile(t, dir, identityFile, "rubbish")
	if err := server.Reload(); err == nil {
		t.Error("rubbish is loaded")
	}
	if !server.Leaf().Equal(renewed) {
		t.Error("rubbish replaced the identity")
	}
}
