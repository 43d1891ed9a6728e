package pki

import (
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/ecdsa"
	"crypto/rand"
)

func TestAuthorityIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki") // made too
	a := must(OpenAuthority(dir, now))(t)
	fi := must(os.Stat(filepath.Join(dir, authorityFile)))(t)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", fi.Mode().Perm())
	}
	b := must(OpenAuthority(dir, now.Add(day)))(t)
	if a.PEM() != b.PEM() || a.Pin() != b.Pin() || a.ID() != b.ID() {
		t.Error("the second start has another authority")
	}
	if len(a.Pin()) != 64 || len(a.ID()) != 16 || !strings.HasPrefix(a.Pin(), a.ID()) {
		t.Errorf("pin %q, id %q", a.Pin(), a.ID())
	}
	if strings.Contains(a.PEM(), "PRIVATE") {
		t.Error("PEM shows the private key")
	}
	if other := newRoot(t); other.Pin() == a.Pin() {
		t.Error("two roots have the same key")
	}
	ca := a.certs()[0]
	if !ca.NotBefore.Equal(now.Add(-day)) || !ca.NotAfter.Equal(now.Add(RootTTL)) {
		t.Errorf("valid from %v to %v", ca.NotBefore, ca.NotAfter)
	}
}

func TestDamagedAuthorityIsRefusedNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := must(OpenAuthority(dir, now))(t)
	path := filepath.Join(dir, authorityFile)
	eachDamage(t, path, func(what string) {
		before, _ := os.ReadFile(path)
		b, err := OpenAuthority(dir, now)
		if err == nil && b.PEM() == a.PEM() {
			return // the changed byte was of no consequence
		}
		if what == "too large" {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		wantDamage(t, what, err, path)
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s: the file was changed", what)
		}
	})
	// Key and certificate of two different authorities.
	other := newRoot(t)
	_, text, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, authorityFile, string(text)+other.PEM())
	_, err = OpenAuthority(dir, now)
	wantDamage(t, "mixed", err, path)
}

func TestIssuedByTheRoot(t *testing.T) {
	t.Parallel()
	a := newRoot(t)
	_, pub := testKey(t)
	chain := must(a.Issue(LeafRequest{
		Subject: Subject{Role: RoleRoot}, PublicKey: pub,
		DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, now))(t)
	for _, name := range []string{RootName, "localhost", "127.0.0.1", "::1"} {
		if err := verify(t, chain, a.Pool(), name, x509.ExtKeyUsageServerAuth, now); err != nil {
			t.Errorf("as %s: %v", name, err)
		}
	}
	if err := verify(t, chain, a.Pool(), "", x509.ExtKeyUsageClientAuth, now); err != nil {
		t.Errorf("as a client: %v", err)
	}
	if err := verify(t, chain, a.Pool(), "example.org", x509.ExtKeyUsageServerAuth, now); err == nil {
		t.Error("valid for a name that it does not have")
	}
	if err := verify(t, chain, newRoot(t).Pool(), RootName, x509.ExtKeyUsageServerAuth, now); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("under another root: %v", err)
	}
	leaf := parseCerts(t, chain)[0]
	if s, err := SubjectOf(leaf); err != nil || s != (Subject{Role: RoleRoot}) {
		t.Errorf("subject %v, %v", s, err)
	}
	for at, ok := range map[time.Time]bool{
		now.Add(-day):                  true, // a late clock
		now.Add(-day - time.Second):    false,
		now.Add(LeafTTL):               true,
		now.Add(LeafTTL + time.Second): false,
	} {
		if err := verify(t, chain, a.Pool(), RootName, x509.ExtKeyUsageServerAuth, at); (err == nil) != ok {
			t.Errorf("at %v: %v, want valid: %v", at, err, ok)
		}
	}
	again := must(a.Issue(LeafRequest{Subject: Subject{Role: RoleRoot}, PublicKey: pub}, now))(t)
	if parseCerts(t, again)[0].SerialNumber.Cmp(leaf.SerialNumber) == 0 {
		t.Error("two certificates have the same serial number")
	}
}

func TestRootRefusesToIssue(t *testing.T) {
	t.Parallel()
	a := newRoot(t)
	_, pub := testKey(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrongCurve := must(x509.MarshalPKIXPublicKey(&p384.PublicKey))(t)
	admin := Subject{Role: RoleAdmin, Name: "ann"}
	for what, r := range map[string]LeafRequest{
		"worker":             {Subject: Subject{RoleWorker, "edge", "w1"}, PublicKey: pub},
		"cluster":            {Subject: Subject{RoleCluster, "edge", ""}, PublicKey: pub},
		"bad name":           {Subject: Subject{Role: RoleAdmin, Name: "Ann B"}, PublicKey: pub},
		"no role":            {PublicKey: pub},
		"no key":             {Subject: admin},
		"rubbish key":        {Subject: admin, PublicKey: []byte("rubbish")},
		"long key":           {Subject: admin, PublicKey: make([]byte, 10_000)},
		"wrong curve":        {Subject: admin, PublicKey: wrongCurve},
		"admin with a name":  {Subject: admin, PublicKey: pub, DNSNames: []string{RootName}},
		"admin with address": {Subject: admin, PublicKey: pub, IPs: []net.IP{net.IPv6loopback}},
		"too many names":     {Subject: Subject{Role: RoleRoot}, PublicKey: pub, DNSNames: make([]string, 65)},
	} {
		if chain, err := a.Issue(r, now); err == nil {
			t.Errorf("%s: issued %s", what, chain)
		}
	}
	for _, name := range []string{"", "Edge", "a.b", "-a", "a-", strings.Repeat("a", 64), "a/b", "*"} {
		if _, err := a.SignCluster(pub, name, now); err == nil {
			t.Errorf("cluster %q: signed", name)
		}
	}
	if _, err := a.SignCluster([]byte("rubbish"), "edge", now); err == nil {
		t.Error("cluster with a rubbish key: signed")
	}
}

func TestNothingOutlivesItsAuthority(t *testing.T) {
	t.Parallel()
	a := newRoot(t)
	_, pub := testKey(t)
	admin := LeafRequest{Subject: Subject{Role: RoleAdmin, Name: "ann"}, PublicKey: pub}
	late := now.Add(RootTTL - 10*day)
	chain := must(a.Issue(admin, late))(t)
	if got := parseCerts(t, chain)[0].NotAfter; !got.Equal(a.certs()[0].NotAfter) {
		t.Errorf("valid until %v, its authority until %v", got, a.certs()[0].NotAfter)
	}
	for what, at := range map[string]time.Time{"expired": now.Add(RootTTL + day), "clock in 1970": time.Unix(0, 0)} {
		if _, err := a.Issue(admin, at); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("%s: error %v, want one that speaks of the clock", what, err)
		}
	}
}

func TestAdminContext(t *testing.T) {
	t.Parallel()
	a := newRoot(t)
	chain, key, err := a.NewAdmin("ann", now)
	if err != nil {
		t.Fatal(err)
	}
	id := must(ParseIdentity(chain, key, a.PEM()))(t)
	if id.Subject() != (Subject{Role: RoleAdmin, Name: "ann"}) || id.RootID() != a.ID() {
		t.Errorf("identity of %v under %s", id.Subject(), id.RootID())
	}
	if err := id.Reload(); err != nil {
		t.Errorf("reload: %v", err)
	}
	_, otherKey, err := a.NewAdmin("bob", now)
	if err != nil {
		t.Fatal(err)
	}
	for what, in := range map[string][3]string{
		"key of another":  {chain, otherKey, a.PEM()},
		"no key":          {chain, "", a.PEM()},
		"other root":      {chain, key, newRoot(t).PEM()},
		"no root":         {chain, key, ""},
		"no chain":        {"", key, a.PEM()},
		"key among certs": {chain + key, key, a.PEM()},
		"order reversed":  {a.PEM(), key, chain},
		"rubbish":         {"rubbish", "rubbish", "rubbish"},
	} {
		if _, err := ParseIdentity(in[0], in[1], in[2]); err == nil {
			t.Errorf("%s: accepted", what)
		} else if strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: the error shows the material: %v", what, err)
		}
	}
	if _, _, err := a.NewAdmin("no name", now); err == nil {
		t.Error("an administrator with a blank in its name")
	}
}

func TestRotationOfTheAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := must(OpenAuthority(dir, now))(t)
	first := a.Pin()
	if err := a.Finish(); !errors.Is(err, ErrNotRotating) {
		t.Errorf("finish without a beginning: %v", err)
	}
	if err := a.Rotate(now); err != nil {
		t.Fatal(err)
	}
	if err := a.Rotate(now); !errors.Is(err, ErrRotating) {
		t.Errorf("a second beginning: %v", err)
	}
	// A crash at any step: what is on disk is the state.
	again := must(OpenAuthority(dir, now))(t)
	if !again.Rotating() || again.Pin() != first || again.NextPin() != a.NextPin() || again.TrustID() != a.TrustID() {
		t.Error("a restart lost the rotation")
	}
	if fi := must(os.Stat(filepath.Join(dir, nextFile)))(t); fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", fi.Mode().Perm())
	}
	_, pub := testKey(t)
	server := must(a.Issue(LeafRequest{Subject: Subject{Role: RoleRoot}, PublicKey: pub}, now))(t)
	admin, _, err := a.NewAdmin("ann", now)
	if err != nil {
		t.Fatal(err)
	}
	certs := a.Certs()
	old, next := poolOf(certs[:1]), poolOf(certs[1:])
	if err := verify(t, server, old, RootName, x509.ExtKeyUsageServerAuth, now); err != nil {
		t.Errorf("who trusts the old authority refuses the server: %v", err)
	}
	if err := verify(t, admin, next, "", x509.ExtKeyUsageClientAuth, now); err != nil {
		t.Errorf("an administrator made meanwhile does not outlive the rotation: %v", err)
	}
	if err := again.Abort(); err != nil || again.Rotating() || again.NextPin() != "" {
		t.Errorf("abort: %v", err)
	}
	a = must(OpenAuthority(dir, now))(t)
	if a.Rotating() || a.Pin() != first {
		t.Error("the abort is not durable")
	}
	if err := a.Rotate(now); err != nil {
		t.Fatal(err)
	}
	second := a.NextPin()
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Authority{a, must(OpenAuthority(dir, now))(t)} {
		if x.Rotating() || x.Pin() != second {
			t.Errorf("after the end the authority is %s, rotating %v", x.ID(), x.Rotating())
		}
	}
}
