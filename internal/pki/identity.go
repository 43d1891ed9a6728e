package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// identityFile holds a node's certificate chain and the root CA. It appears, or
// is replaced, in one step; the key beside it was there before.
const identityFile = "identity.pem"

// awayFile holds what a worker shows to nodes beyond its cluster: a certificate for
// the same key under a name that says nothing.
const awayFile = "away.pem"

// Identity is who a node (or the user of a context) is: key, certificate and
// the root that it trusts. It is safe for concurrent use.
type Identity struct {
	// Clock says what time it is when certificates are verified; nil is the
	// machine's. Set it, if at all, before the first use.
	Clock *Clock
	// Revoked are keys that no peer may have; nil: none. Set it, if at all, before
	// the first use.
	Revoked *Revoked

	dir     string
	current atomic.Pointer[credentials]
}

// credentials are one loaded state of an Identity; never changed.
type credentials struct {
	subject Subject
	leaf    *x509.Certificate
	roots   []*x509.Certificate
	pool    *x509.CertPool // of roots
	issuers string         // PEM of the chain without the leaf
	// client is sent to servers: leaf and what leads to the root. server has the
	// root CA too, so that a node with only a pin can find it there.
	client, server *tls.Certificate
	away           *credentials // nil: there is none
}

// IdentityFiles are the files in dir with the certificate and its chain, and with the
// private key, for programs that are not Verge.
func IdentityFiles(dir string) (cert, key string) {
	return filepath.Join(dir, identityFile), filepath.Join(dir, nodeKeyFile)
}

// SaveIdentity stores the certificate that was issued for the key of EnsureKey
// in dir, with the root CA. Also for a renewed certificate. What does not fit
// together is refused and changes nothing. A crash leaves the old state or the
// new one.
func SaveIdentity(dir, chain, ca string) error {
	text := joinPEM(chain, ca)
	key, err := readKey(filepath.Join(dir, nodeKeyFile))
	if err != nil {
		return fmt.Errorf("store the identity: %w", err)
	}
	if _, err := newCredentials(key, []byte(text)); err != nil {
		return fmt.Errorf("the certificate received for this node cannot be used: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, identityFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("store the identity: %w", err)
	}
	return nil
}

// SaveAway stores the certificate that a worker shows beyond its cluster, with the
// root CA; "" removes it. It is for the key of EnsureKey too. It is stored before
// that of SaveIdentity, so that nobody sees the worker's name in between.
func SaveAway(dir, chain, ca string) error {
	path := filepath.Join(dir, awayFile)
	if chain == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the identity for others: %w", err)
		}
		return nil
	}
	text := joinPEM(chain, ca)
	key, err := readKey(filepath.Join(dir, nodeKeyFile))
	if err == nil {
		_, err = newCredentials(key, []byte(text))
	}
	if err == nil {
		err = atomicfile.Write(path, []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("store the identity for others: %w", err)
	}
	return nil
}

// LoadIdentity loads what SaveIdentity stored in dir. The error wraps
// os.ErrNotExist when there is no identity yet: the node has to join.
func LoadIdentity(dir string) (*Identity, error) {
	id := &Identity{dir: dir}
	if err := id.Reload(); err != nil {
		return nil, err
	}
	return id, nil
}

// ParseIdentity is an identity from the PEM texts of a context: certificate
// chain, private key, root CA. Reload does nothing for it.
func ParseIdentity(chain, key, ca string) (*Identity, error) {
	k, err := parsePEM([]byte(key))
	if err == nil && k.key == nil {
		err = errors.New("there is no private key")
	}
	if err != nil {
		return nil, fmt.Errorf("private key of the context: %w", err)
	}
	c, err := newCredentials(k.key, []byte(joinPEM(chain, ca)))
	if err != nil {
		return nil, fmt.Errorf("certificate of the context: %w", err)
	}
	id := &Identity{}
	id.current.Store(c)
	return id, nil
}

// Reload picks up a renewed certificate: new handshakes use it, also with
// configurations made before. On an error the old one stays in use. A changed
// root CA is used by configurations made after, and by those of ClientTLS and
// LiveServerTLS that were made before.
func (id *Identity) Reload() error {
	if id.dir == "" {
		return nil
	}
	path := filepath.Join(id.dir, identityFile)
	data, err := atomicfile.ReadBounded(path, maxPEM)
	if err != nil {
		return fmt.Errorf("load the identity: %w", err)
	}
	key, err := readKey(filepath.Join(id.dir, nodeKeyFile))
	if err != nil {
		return fmt.Errorf("load the identity: %w", notMissing(err))
	}
	c, err := newCredentials(key, data)
	if err != nil {
		return damaged(path, err, rejoin)
	}
	// Without it, or with one of an earlier key, the worker goes by its own name.
	if data, err := atomicfile.ReadBounded(filepath.Join(id.dir, awayFile), maxPEM); err == nil {
		if away, err := newCredentials(key, data); err == nil && away.subject.Role == c.subject.Role && away.subject.Cluster == c.subject.Cluster {
			c.away = away
		}
	}
	id.current.Store(c)
	return nil
}

// notMissing hides that a file is missing: a part that lacks its other half is
// not the same as "nothing there yet".
func notMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("the private key that belongs to it is missing (%v): %s", err, rejoin) //nolint:errorlint // hidden, see above
	}
	return err
}

func newCredentials(key *ecdsa.PrivateKey, data []byte) (*credentials, error) {
	chain, roots, err := parseChain(data)
	if err != nil {
		return nil, err
	}
	leaf := chain[0]
	if !holds(leaf, key) {
		return nil, errors.New("its certificate was made for another key")
	}
	subject, err := SubjectOf(leaf)
	if err != nil {
		return nil, err
	}
	c := &credentials{subject: subject, leaf: leaf, roots: roots, pool: poolOf(roots), issuers: certPEM(chain[1:]...)}
	c.client = &tls.Certificate{Certificate: rawOf(chain), PrivateKey: key, Leaf: leaf}
	c.server = &tls.Certificate{Certificate: append(rawOf(chain), rawOf(roots)...), PrivateKey: key, Leaf: leaf}
	return c, nil
}

// parseChain reads a chain and the root CAs after it, and checks that the one
// leads to the other.
func parseChain(data []byte) (chain, roots []*x509.Certificate, err error) {
	m, err := parsePEM(data)
	if err != nil {
		return nil, nil, err
	}
	if m.key != nil {
		return nil, nil, errors.New("it holds a private key where only certificates belong")
	}
	chain, roots, err = splitRoots(m.certs)
	if err != nil {
		return nil, nil, err
	}
	return chain, roots, leadsTo(chain, roots)
}

func rawOf(certs []*x509.Certificate) [][]byte {
	raw := make([][]byte, len(certs))
	for i, c := range certs {
		raw[i] = c.Raw
	}
	return raw
}

func joinPEM(chain, ca string) string {
	return strings.TrimSpace(chain) + "\n" + strings.TrimSpace(ca) + "\n"
}

// Subject is who this identity says its holder is.
func (id *Identity) Subject() Subject { return id.current.Load().subject }

// Away is who nodes beyond the cluster see; false: no other than Subject.
func (id *Identity) Away() (Subject, bool) {
	c := id.current.Load()
	if c.away == nil {
		return c.subject, false
	}
	return c.away.subject, true
}

// Leaf is the certificate in use now. The caller must not change it.
func (id *Identity) Leaf() *x509.Certificate { return id.current.Load().leaf }

// Issuers is the PEM of what leads from this identity's certificate to the root.
func (id *Identity) Issuers() string { return id.current.Load().issuers }

// IssuerID names the key that this identity's certificate is signed with: that of
// ClusterAuthority.KeyID for who has followed it.
func (id *Identity) IssuerID() string { return hex.EncodeToString(id.Leaf().AuthorityKeyId) }

// RootID is Authority.ID of the root that this identity belongs to.
func (id *Identity) RootID() string { return rootID(id.current.Load().roots[0]) }

// TrustID names the authorities that this identity trusts, whatever their order:
// who has another one than the tier above has not followed a rotation yet.
func (id *Identity) TrustID() string { return trustID(id.current.Load().roots) }

// CAPEM is the certificate of the root CA; of both while it is rotated.
func (id *Identity) CAPEM() string { return certPEM(id.current.Load().roots...) }

// RenewAt is when half of the certificate's life is over: the time to renew it.
func (id *Identity) RenewAt() time.Time { return halfLife(id.Leaf()) }

func halfLife(cert *x509.Certificate) time.Time {
	made := madeAt(cert)
	return made.Add(cert.NotAfter.Sub(made) / 2)
}
