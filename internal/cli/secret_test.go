package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// secretive is a world with secrets.
func secretive() *resttest.Fake {
	f := world()
	f.SecretList = []apiv1.SecretView{
		{Namespace: "default", Name: "db-password", Created: ago(30 * time.Hour), Updated: ago(3 * time.Minute),
			By: "user/ann", UsedBy: []string{"guestbook.front", "guestbook.store"},
			Variable: []string{"guestbook.store"}, Holders: 3, Current: 2, Restart: []string{"guestbook.store.0"}},
		{Namespace: "default", Name: "unused", Created: ago(time.Hour), Updated: ago(time.Hour), By: "admin"},
		{Namespace: "shop", Name: "tls-key", Created: ago(50 * time.Hour), Updated: ago(50 * time.Hour), By: "admin",
			Expires: ago(-24 * time.Hour),
			Problem: "it was sealed with another key than the root has now: set it again"},
	}
	return f
}

func TestSecretGolden(t *testing.T) {
	for name, line := range map[string]string{
		"secret-ls":          "secret ls",
		"secret-ls-wide":     "secret ls -o wide",
		"secret-ls-json":     "secret ls -n shop -o json",
		"secret-ls-name":     "secret ls -n default -o name",
		"secret-ls-none":     "secret ls -n empty",
		"secret-set":         "secret set db-password --from-file DIR/value",
		"secret-set-new":     "secret set session --namespace shop --from-file DIR/line",
		"secret-set-argv":    "secret set session hunter2",
		"secret-set-no-file": "secret set session",
		"secret-set-missing": "secret set session --from-file DIR/none",
		"secret-set-empty":   "secret set session --from-file DIR/empty",
		"secret-set-large":   "secret set session --from-file DIR/large",
		"secret-set-login": "secret set registry --registry https://registry.test:5000 --username me " +
			"--password-file DIR/line",
		"secret-set-half": "secret set registry --registry registry.test --password-file DIR/line",
		"secret-set-both": "secret set registry --registry registry.test --username me --password-file DIR/line " +
			"--from-file DIR/value",
		"secret-rm":         "secret rm unused",
		"secret-rm-used":    "secret rm db-password",
		"secret-rm-missing": "secret rm nothing -n shop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, secretive())
			f.file("value", "hunter2")
			f.file("line", "hunter2\n")
			f.file("empty", "")
			f.file("large", strings.Repeat("hunter2", wire.MaxSecretBytes))
			args := strings.Fields(strings.ReplaceAll(line, "DIR", f.dir))
			r := f.run(args...)
			if strings.Contains(r.stdout+r.stderr, "hunter2") {
				t.Errorf("the value is shown: %+v", r)
			}
			f.golden(name, r, args...)
		})
	}
}

func TestSecretFromStandardInput(t *testing.T) {
	f := newFixture(t, secretive())
	if r := f.runWith("hunter2", "secret", "set", "session", "--from-file", "-"); r.code != 0 ||
		f.fake.SecretValues["default.session"] != "hunter2" {
		t.Errorf("%+v, %q", r, f.fake.SecretValues)
	}
	// The namespace of the context counts where none is given.
	f.entry.Namespace = "shop"
	if err := client.WriteContext(f.env["VERGE_CONTEXT"], f.entry); err != nil {
		t.Fatal(err)
	}
	if r := f.runWith("x", "secret", "set", "session", "--from-file", "-"); r.code != 0 ||
		f.fake.SecretValues["shop.session"] != "x" {
		t.Errorf("%+v, %q", r, f.fake.SecretValues)
	}
}

// pair makes a certificate that ends at a time, and its key, in PEM.
func pair(t *testing.T, end time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"shop.example"},
		NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// A certificate is set only with its own key, and only one that is valid.
func TestSecretSetCertificate(t *testing.T) {
	now := ago(0)
	good, key := pair(t, now.Add(90*24*time.Hour))
	soon, soonKey := pair(t, now.Add(13*24*time.Hour))
	old, oldKey := pair(t, now.Add(-time.Second))
	for name, c := range map[string]struct {
		cert, key, says string
		set             bool
	}{
		"good":        {good, key, "it is for shop.example, until ", true},
		"soon":        {soon, soonKey, "expires soon, at ", true},
		"expired":     {old, oldKey, "it expired at ", false},
		"another key": {good, soonKey, "private key does not match", false},
		"no key":      {good, good, "cannot be used", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, secretive())
			f.file("cert.pem", c.cert)
			f.file("key.pem", c.key)
			r := f.run("secret", "set", "shop-tls", "--cert", f.dir+"/cert.pem", "--key", f.dir+"/key.pem")
			if (r.code == 0) != c.set || !strings.Contains(r.stderr, c.says) ||
				(f.fake.SecretValues["default.shop-tls"] != "") != c.set {
				t.Errorf("%+v", r)
			}
			if !c.set && !strings.Contains(r.stderr, "→") {
				t.Errorf("no next step: %s", r.stderr)
			}
			if name == "good" && strings.Contains(r.stderr, "soon") {
				t.Errorf("a warning without a reason: %s", r.stderr)
			}
		})
	}
}
