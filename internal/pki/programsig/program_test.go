package programsig

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// keyFiles are a private key and its public part, in files.
func keyFiles(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "pub")
	for path, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: a}, public: {Type: "PUBLIC KEY", Bytes: b}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

func TestOnlySignedPrograms(t *testing.T) {
	private, public := keyFiles(t)
	_, other := keyFiles(t)
	sum := strings.Repeat("ab", 32)
	sig, err := Sign(private, sum)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ReadKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	strangers, err := ReadKeys(other)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{sig[0] ^ 1}, sig[1:]...)
	for name, c := range map[string]struct {
		keys []ed25519.PublicKey
		sum  string
		sig  []byte
		ok   bool
	}{
		"signed":               {keys, sum, sig, true},
		"by one of two":        {append(strangers, keys...), sum, sig, true},
		"by a stranger":        {strangers, sum, sig, false},
		"another program":      {keys, strings.Repeat("ac", 32), sig, false},
		"a bit of it":          {keys, sum, flipped, false},
		"not signed":           {keys, sum, nil, false},
		"nobody may sign":      {nil, sum, sig, false},
		"a part of it":         {keys, sum, sig[:63], false},
		"with something after": {keys, sum, append(sig[:64:64], 0), false},
	} {
		if err := Verify(c.keys, &wire.Program{SHA256: c.sum, Signature: c.sig}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Files that are something else.
	if _, err := ReadKeys(private); err == nil || !strings.Contains(err.Error(), "only public keys") {
		t.Errorf("a private key where public ones belong: %v", err)
	}
	if _, err := Sign(public, sum); err == nil {
		t.Error("signed with a public key")
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeys(empty); err == nil {
		t.Error("a file without keys is read")
	}
}
