package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Files of a node's or cluster's identity inside its folder.
const (
	nodeKeyFile    = "key.pem"
	clusterKeyFile = "cluster-ca-key.pem"
)

const (
	blockKey  = "PRIVATE KEY"
	blockCert = "CERTIFICATE"

	// maxPEM bounds every PEM text that is read: a chain is about 2 KiB.
	maxPEM = 64 << 10
	// maxPublicKey bounds a public key from the network: P-256 needs 91 bytes.
	maxPublicKey = 512
)

// EnsureKey returns the public part (PKIX DER) of the node key in dir, which it
// makes on the first call (dir too). Call it before joining; the private part
// stays in dir. A damaged key file is an error, never replaced.
func EnsureKey(dir string) (public []byte, err error) { return ensureKey(dir, nodeKeyFile) }

// EnsureClusterKey is EnsureKey for the key of a cluster's own authority (see
// ClusterAuthority), so that the request to join can carry its public part.
func EnsureClusterKey(dir string) (public []byte, err error) { return ensureKey(dir, clusterKeyFile) }

func ensureKey(dir, file string) ([]byte, error) {
	path := filepath.Join(dir, file)
	key, err := readKey(path)
	if errors.Is(err, os.ErrNotExist) {
		key, err = createKey(dir, path)
	}
	if err != nil {
		return nil, err
	}
	return publicDER(key)
}

func createKey(dir, path string) (*ecdsa.PrivateKey, error) {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	key, text, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// newKey makes a key and its PEM.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := atomicfile.ReadBounded(path, maxPEM)
	if err != nil {
		return nil, err
	}
	m, err := parsePEM(data)
	if err == nil && (m.key == nil || len(m.certs) > 0) {
		err = errors.New("it does not hold exactly one private key")
	}
	if err != nil {
		return nil, damaged(path, err, "restore it from a backup, or remove it and join again with a new token")
	}
	return m.key, nil
}

// damaged is the error for a file that is there but cannot be used.
func damaged(path string, err error, remedy string) error {
	return fmt.Errorf("%s is damaged: %w: %s", path, err, remedy)
}

// material is what a PEM text can hold.
type material struct {
	key   *ecdsa.PrivateKey
	certs []*x509.Certificate
}

// parsePEM reads at most one private key and any number of certificates, and
// nothing else: an unfinished block at the end is an error, not ignored.
func parsePEM(data []byte) (material, error) {
	var m material
	if len(data) > maxPEM {
		return m, fmt.Errorf("%d bytes of PEM are more than %d", len(data), maxPEM)
	}
	rest := bytes.TrimSpace(data)
	for len(rest) > 0 {
		block, after := pem.Decode(rest)
		if block == nil {
			return m, errors.New("it ends in something that is not a whole PEM block (cut off?)")
		}
		rest = bytes.TrimSpace(after)
		switch block.Type {
		case blockKey:
			key, err := parseKey(block.Bytes)
			if err != nil {
				return m, err
			}
			if m.key != nil {
				return m, errors.New("it holds two private keys")
			}
			m.key = key
		case blockCert:
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return m, fmt.Errorf("unreadable certificate: %w", err)
			}
			m.certs = append(m.certs, cert)
		default:
			return m, fmt.Errorf("unexpected PEM block %q", block.Type)
		}
	}
	return m, nil
}

func parseKey(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("unreadable private key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("private key of type %T is not ECDSA P-256", parsed)
	}
	return key, nil
}

// parsePublic reads a public key that came from another node.
func parsePublic(der []byte) (*ecdsa.PublicKey, error) {
	if len(der) > maxPublicKey {
		return nil, fmt.Errorf("public key of %d bytes is longer than %d", len(der), maxPublicKey)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("unreadable public key (want PKIX DER): %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("public key of type %T is not ECDSA P-256", parsed)
	}
	return key, nil
}

func publicDER(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode a public key: %w", err)
	}
	return der, nil
}

// certPEM is the text of certificates, in order.
func certPEM(certs ...*x509.Certificate) string {
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: c.Raw})...)
	}
	return string(text)
}

// holds reports whether cert certifies key.
func holds(cert *x509.Certificate, key *ecdsa.PrivateKey) bool {
	return key.PublicKey.Equal(cert.PublicKey)
}
