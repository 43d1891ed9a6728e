package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

const (
	// authorityFile holds key and certificate of the root CA in one file, so that
	// no crash can leave one without the other.
	authorityFile = "authority.pem"
	// nextFile is the same for the CA that is about to replace it: while it is
	// there, the authority is being rotated.
	nextFile = "authority-next.pem"
)

// Authority is the root's certificate authority. While it is rotated it is two:
// the current one, which everybody trusts, and the next one (see Rotate). It is
// safe for concurrent use.
type Authority struct {
	dir string

	mu sync.RWMutex
	// issuers has the current one first; guarded by mu, replaced as a whole.
	issuers []*issuer
}

// OpenAuthority loads the root CA from dir, or makes it (and dir) when there is
// none. A damaged file is an error that names it: a new CA in its place would
// lock out every node.
func OpenAuthority(dir string, now time.Time) (*Authority, error) {
	a := &Authority{dir: dir}
	first, err := readAuthority(filepath.Join(dir, authorityFile))
	if errors.Is(err, os.ErrNotExist) {
		first, err = createAuthority(dir, authorityFile, now)
	}
	if err != nil {
		return nil, err
	}
	a.issuers = []*issuer{first}
	next, err := readAuthority(filepath.Join(dir, nextFile))
	switch {
	case err == nil:
		a.issuers = append(a.issuers, next)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	return a, nil
}

func readAuthority(path string) (*issuer, error) {
	data, err := atomicfile.ReadBounded(path, maxPEM)
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
	return &issuer{key: m.key, cert: m.certs[0]}, nil
}

func createAuthority(dir, file string, now time.Time) (*issuer, error) {
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	key, keyText, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	i := &issuer{key: key}
	i.cert, err = i.sign(&x509.Certificate{
		Subject:  pkix.Name{Organization: []string{"Verge"}, CommonName: "Verge root authority"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		// Root → cluster → leaf, and nothing deeper.
		MaxPathLen: 1,
	}, &key.PublicKey, RootTTL, now)
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, file), append(keyText, certPEM(i.cert)...), 0o600); err != nil {
		return nil, fmt.Errorf("make the certificate authority: %w", err)
	}
	return i, nil
}

// Errors of the steps of a rotation.
var (
	ErrRotating    = errors.New("the authority is being rotated already")
	ErrNotRotating = errors.New("the authority is not being rotated")
)

// Rotate begins to replace the root CA: a second one is made, and from now on
// everything that is certified leads to both. Nobody has to trust the second one
// yet, so nothing breaks whatever the order in which nodes hear of it. The error
// wraps ErrRotating if that was done before.
func (a *Authority) Rotate(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.issuers) > 1 {
		return ErrRotating
	}
	next, err := createAuthority(a.dir, nextFile, now)
	if err != nil {
		return err
	}
	a.issuers = []*issuer{a.issuers[0], next}
	return nil
}

// Finish ends a rotation: the second CA takes the place of the first, whose key
// is gone. Who trusts only the first is locked out. The error wraps
// ErrNotRotating if there is no second one.
func (a *Authority) Finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.issuers) < 2 {
		return ErrNotRotating
	}
	// One rename: a crash leaves the state before or the state after.
	if err := os.Rename(filepath.Join(a.dir, nextFile), filepath.Join(a.dir, authorityFile)); err != nil {
		return fmt.Errorf("put the new authority in place: %w", err)
	}
	a.issuers = a.issuers[1:]
	if err := atomicfile.SyncDir(a.dir); err != nil {
		return fmt.Errorf("put the new authority in place: %w", err)
	}
	return nil
}

// Abort ends a rotation without having changed anything: the second CA is
// forgotten. The error wraps ErrNotRotating if there is none.
func (a *Authority) Abort() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.issuers) < 2 {
		return ErrNotRotating
	}
	if err := os.Remove(filepath.Join(a.dir, nextFile)); err != nil {
		return fmt.Errorf("remove the new authority: %w", err)
	}
	a.issuers = a.issuers[:1]
	return atomicfile.SyncDir(a.dir)
}

func (a *Authority) all() []*issuer {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.issuers
}

func (a *Authority) certs() []*x509.Certificate {
	var out []*x509.Certificate
	for _, i := range a.all() {
		out = append(out, i.cert)
	}
	return out
}

// Rotating says whether there is a second CA.
func (a *Authority) Rotating() bool { return len(a.all()) > 1 }

// Certs are the certificates of the root CA: the current one, and the next one
// while it is rotated. The caller must not change them.
func (a *Authority) Certs() []*x509.Certificate { return a.certs() }

// Pool holds the root CA, for verifying peers.
func (a *Authority) Pool() *x509.CertPool { return poolOf(a.certs()) }

// PEM is the certificate of the root CA; of both while it is rotated.
func (a *Authority) PEM() string { return certPEM(a.certs()...) }

// Pin is the SHA-256 of the root CA's public key, in hex.
func (a *Authority) Pin() string { return pinOf(a.certs()[0]) }

// NextPin is Pin of the next CA, "" while the authority is not rotated.
func (a *Authority) NextPin() string { return nextPin(a.certs()) }

func nextPin(roots []*x509.Certificate) string {
	if len(roots) < 2 {
		return ""
	}
	return pinOf(roots[len(roots)-1])
}

// ID names this root among others: the first 16 characters of Pin.
func (a *Authority) ID() string { return rootID(a.certs()[0]) }

// TrustID names what is trusted: see Identity.TrustID.
func (a *Authority) TrustID() string { return trustID(a.certs()) }

func rootID(ca *x509.Certificate) string { return pinOf(ca)[:16] }

// SignCluster certifies the public key (PKIX DER, see EnsureClusterKey) of a
// cluster's own authority and returns its PEM: one certificate, or one under
// each CA while the authority is rotated, so that what the cluster signs is
// accepted by those who trust either. It is valid only for names of the cluster.
func (a *Authority) SignCluster(public []byte, cluster string, now time.Time) (chain string, err error) {
	if err := CheckLabel(cluster); err != nil {
		return "", fmt.Errorf("certify a cluster: %w", err)
	}
	pub, err := parsePublic(public)
	if err != nil {
		return "", fmt.Errorf("certify cluster %s: %w", cluster, err)
	}
	own := []string{ClusterName(cluster)}
	for _, i := range a.all() {
		cert, err := i.sign(&x509.Certificate{
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
		chain += certPEM(cert)
	}
	return chain, nil
}

func everyAddress() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
}

// Issue certifies the root's own server or an administrator, and returns the
// PEM chain. Clusters and workers are certified by the cluster's authority.
//
// While the authority is rotated the server's certificate is of the current CA,
// which everybody trusts, and an administrator's of the next one, which lasts.
func (a *Authority) Issue(r LeafRequest, now time.Time) (chain string, err error) {
	issuers := a.all()
	switch r.Subject.Role {
	case RoleRoot:
		return issuers[0].leaf(r, now)
	case RoleAdmin:
		return issuers[len(issuers)-1].leaf(r, now)
	case RoleCluster, RoleWorker:
	}
	return "", fmt.Errorf("issue a certificate for %s: the root signs for itself and for administrators; a cluster signs for itself and its workers", r.Subject)
}

// NewAdmin makes key and certificate of an administrator of everything, for a
// context file. The key is not kept.
func (a *Authority) NewAdmin(name string, now time.Time) (chain, key string, err error) {
	issuers := a.all()
	return newAdmin(issuers[len(issuers)-1], Subject{Role: RoleAdmin, Name: name}, now)
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
