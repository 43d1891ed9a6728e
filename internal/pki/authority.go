package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// authorityFile holds key and certificate of the root CA in one file, so that
// no crash can leave one without the other.
const authorityFile = "authority.pem"

// Authority is the root's certificate authority. It is safe for concurrent use.
type Authority struct{ issuer issuer }

// OpenAuthority loads the root CA from dir, or makes it (and dir) when there is
// none. A damaged file is an error that names it: a new CA in its place would
// lock out every node.
func OpenAuthority(dir string, now time.Time) (*Authority, error) {
	path := filepath.Join(dir, authorityFile)
	data, err := atomicfile.ReadBounded(path, maxPEM)
	if errors.Is(err, os.ErrNotExist) {
		return createAuthority(dir, path, now)
	}
	if err != nil {
		return nil, fmt.Errorf("open the certificate authority: %w", err)
	}
	m, err := parsePEM(data)
	if err == nil {
		switch {
		case m.key == nil || len(m.certs) != 1:
			err = fmt.Errorf("it does not hold one private key and one certificate")
		case !isRoot(m.certs[0]):
			err = errors.New("its certificate is not that of a root authority")
		case !holds(m.certs[0], m.key):
			err = errors.New("its key and its certificate do not belong together")
		}
	}
	if err != nil {
		return nil, damaged(path, err, "restore it from a backup; without it every cluster has to join again under a new root")
	}
	return &Authority{issuer{key: m.key, cert: m.certs[0]}}, nil
}

func createAuthority(dir, path string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	i := issuer{key: key}
	cert, err := i.sign(&x509.Certificate{
		Subject:  pkix.Name{Organization: []string{"Verge"}, CommonName: "Verge root authority"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		// Root → cluster → leaf, and nothing deeper.
		MaxPathLen: 1,
	}, &key.PublicKey, RootTTL, now)
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	i.cert = cert
	if err := atomicfile.Write(path, append(keyText, certPEM(cert)...), 0o600); err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	return &Authority{i}, nil
}

// Pool holds the root CA, for verifying peers.
func (a *Authority) Pool() *x509.CertPool { return poolOf([]*x509.Certificate{a.issuer.cert}) }

// PEM is the certificate of the root CA.
func (a *Authority) PEM() string { return certPEM(a.issuer.cert) }

// Pin is the SHA-256 of the root CA's public key, in hex.
func (a *Authority) Pin() string { return pinOf(a.issuer.cert) }

// ID names this root among others: the first 16 characters of Pin.
func (a *Authority) ID() string { return rootID(a.issuer.cert) }

func rootID(ca *x509.Certificate) string { return pinOf(ca)[:16] }

// SignCluster certifies the public key (PKIX DER, see EnsureClusterKey) of a
// cluster's own authority and returns its PEM. What that authority signs is
// valid only for names of this cluster.
func (a *Authority) SignCluster(public []byte, cluster string, now time.Time) (chain string, err error) {
	if err := checkLabel(cluster); err != nil {
		return "", fmt.Errorf("certify a cluster: %w", err)
	}
	pub, err := parsePublic(public)
	if err != nil {
		return "", fmt.Errorf("certify cluster %s: %w", cluster, err)
	}
	own := []string{ClusterName(cluster)}
	cert, err := a.issuer.sign(&x509.Certificate{
		Subject:        pkix.Name{Organization: []string{"Verge cluster authority"}, CommonName: cluster},
		IsCA:           true,
		MaxPathLenZero: true, // it signs leaves, not further authorities
		KeyUsage:       x509.KeyUsageCertSign | x509.KeyUsageCRLSign,

		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         own,
		PermittedURIDomains:         own,
		// Without these a cluster could certify any address, and a client that
		// dials by address would take it for whoever lives there.
		ExcludedIPRanges: everyAddress(),
	}, pub, ClusterTTL, now)
	if err != nil {
		return "", fmt.Errorf("certify cluster %s: %w", cluster, err)
	}
	return certPEM(cert), nil
}

func everyAddress() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
}

// Issue certifies the root's own server or an administrator, and returns the
// PEM chain. Clusters and workers are certified by the cluster's authority.
func (a *Authority) Issue(r LeafRequest, now time.Time) (chain string, err error) {
	if r.Subject.Role != RoleRoot && r.Subject.Role != RoleAdmin {
		return "", fmt.Errorf("issue a certificate for %s: the root signs for itself and for administrators; a cluster signs for itself and its workers", r.Subject)
	}
	return a.issuer.leaf(r, now)
}

// NewAdmin makes key and certificate of an administrator of everything, for a
// context file. The key is not kept.
func (a *Authority) NewAdmin(name string, now time.Time) (chain, key string, err error) {
	return newAdmin(&a.issuer, Subject{Role: RoleAdmin, Name: name}, now)
}

func newAdmin(i *issuer, s Subject, now time.Time) (chain, key string, err error) {
	private, text, err := newKey()
	if err != nil {
		return "", "", err
	}
	public, err := publicDER(private)
	if err != nil {
		return "", "", err
	}
	chain, err = i.leaf(LeafRequest{Subject: s, PublicKey: public}, now)
	if err != nil {
		return "", "", err
	}
	return chain, string(text), nil
}
