package programsig

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

// maxProgramKeys of a file, maxProgramKeyFile its bytes.
const (
	maxProgramKeys    = 16
	maxProgramKeyFile = 64 << 10
)

// ReadKeys reads the public keys of which one must have signed a program: PEM blocks
// of Ed25519 keys, as openssl pkey -pubout writes them.
func ReadKeys(path string) (keys []ed25519.PublicKey, err error) {
	rest, err := atomicfile.ReadBounded(path, maxProgramKeyFile)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("%s has a block of type %q; only public keys belong there (openssl pkey -pubout)", path, block.Type)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("%s has a key that is not of Ed25519 but %T", path, parsed)
		}
		if keys = append(keys, key); len(keys) > maxProgramKeys {
			return nil, fmt.Errorf("%s has more than %d keys", path, maxProgramKeys)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no public key (PEM, Ed25519)", path)
	}
	return keys, nil
}

// Sign signs the program with this SHA-256 with the private key in a file: PEM,
// Ed25519, as openssl genpkey -algorithm ed25519 writes it.
func Sign(path, sha256 string) ([]byte, error) {
	data, err := atomicfile.ReadBounded(path, maxProgramKeyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s has no private key (PEM, as openssl genpkey -algorithm ed25519 writes it)", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s has a key that is not of Ed25519 but %T", path, parsed)
	}
	return ed25519.Sign(key, wire.SignedProgram(sha256)), nil
}

// errUnsigned: no known key has signed it.
var errUnsigned = errors.New("none of the keys that this worker knows has signed the program")

// Verify refuses a program that none of the keys has signed.
func Verify(keys []ed25519.PublicKey, p *wire.Program) error {
	for _, key := range keys {
		if len(p.Signature) == ed25519.SignatureSize && ed25519.Verify(key, wire.SignedProgram(p.SHA256), p.Signature) {
			return nil
		}
	}
	return errUnsigned
}
