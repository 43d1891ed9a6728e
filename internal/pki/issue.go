package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Lifetimes of certificates, counted from the moment they are made.
const (
	RootTTL    = 10 * year
	ClusterTTL = 5 * year
	LeafTTL    = year

	year = 365 * 24 * time.Hour
	// backdate lets a board whose clock is up to a day late use its new
	// certificate at once.
	backdate = 24 * time.Hour

	// RenewGrace is how long after its certificate has expired a node may still
	// renew it with its old key.
	RenewGrace = 180 * 24 * time.Hour
)

// maxSANs bounds the extra names of a certificate.
const maxSANs = 64

// LeafRequest asks an authority for the certificate of a node or person.
type LeafRequest struct {
	Subject Subject
	// PublicKey is PKIX DER of an ECDSA P-256 key (see EnsureKey).
	PublicKey []byte
	// DNSNames and IPs are further names under which a server is reached; its
	// own name (RootName, ClusterName, WorkerName) is always there. Both must be
	// empty for an administrator or a plugin, and IPs also for what a cluster signs.
	DNSNames []string
	IPs      []net.IP
	// TTL is how long the certificate is valid; 0 means LeafTTL. It never
	// outlives its authority.
	TTL time.Duration
}

// issuer signs certificates.
type issuer struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// above is the PEM that leads from a certificate it signs to the root CA,
	// without the root CA itself.
	above string
}

// leaf signs the certificate that r asks for and returns it with its chain.
func (i *issuer) leaf(r LeafRequest, now time.Time) (string, error) {
	if err := r.Subject.Validate(); err != nil {
		return "", fmt.Errorf("issue a certificate: %w", err)
	}
	extra := len(r.DNSNames) + len(r.IPs)
	if extra > maxSANs {
		return "", fmt.Errorf("issue a certificate for %s: %d extra names are more than %d", r.Subject, extra, maxSANs)
	}
	dns := r.DNSNames
	if own := r.Subject.serverName(); own != "" {
		dns = append([]string{own}, dns...)
	} else if extra > 0 {
		return "", fmt.Errorf("issue a certificate for %s: who has this role is no server and has no host names", r.Subject)
	}
	pub, err := parsePublic(r.PublicKey)
	if err != nil {
		return "", fmt.Errorf("issue a certificate for %s: %w", r.Subject, err)
	}
	ttl := r.TTL
	if ttl <= 0 {
		ttl = LeafTTL
	}
	common := r.Subject.Name
	if common == "" {
		common = r.Subject.Cluster
	}
	cert, err := i.sign(&x509.Certificate{
		// For people who look at it; nothing is decided by it.
		Subject:     pkix.Name{Organization: []string{"Verge " + string(r.Subject.Role)}, CommonName: common},
		URIs:        []*url.URL{r.Subject.uri()},
		DNSNames:    dns,
		IPAddresses: r.IPs,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		// Every node is a server to some and a client to others.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, pub, ttl, now)
	if err != nil {
		return "", fmt.Errorf("issue a certificate for %s: %w", r.Subject, err)
	}
	return certPEM(cert) + i.above, nil
}

// sign completes and signs a template. The issuer's own certificate may be nil:
// then the template signs itself.
func (i *issuer) sign(template *x509.Certificate, pub *ecdsa.PublicKey, ttl time.Duration, now time.Time) (*x509.Certificate, error) {
	// Random, so that nothing has to be counted durably and nothing can be
	// guessed.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	template.BasicConstraintsValid = true
	template.NotBefore = now.Add(-backdate).UTC()
	template.NotAfter = now.Add(ttl).UTC()
	parent := i.cert
	if parent == nil {
		parent = template
	} else {
		if err := usable(parent, now); err != nil {
			return nil, err
		}
		if template.NotAfter.After(parent.NotAfter) {
			template.NotAfter = parent.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, i.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return x509.ParseCertificate(der)
}

// usable refuses to sign with an authority that nobody would accept any more.
func usable(ca *x509.Certificate, now time.Time) error {
	if now.After(ca.NotAfter) {
		return fmt.Errorf("the authority %q expired on %s and can sign no more: renew it, or set the clock if it is not %s",
			ca.Subject.CommonName, ca.NotAfter.Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	}
	if now.Before(ca.NotBefore) {
		return fmt.Errorf("the authority %q is valid from %s, the clock says %s: set the clock",
			ca.Subject.CommonName, ca.NotBefore.Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	}
	return nil
}

// ExpiresOf is when the first certificate of a PEM chain that an authority of
// this package made expires; zero for what is none.
func ExpiresOf(chain string) time.Time {
	m, err := parsePEM([]byte(chain))
	if err != nil || len(m.certs) == 0 {
		return time.Time{}
	}
	return m.certs[0].NotAfter
}

// RenewAtOf is when half of the life of the first certificate of a PEM chain is
// over.
func RenewAtOf(chain string) (time.Time, error) {
	m, err := parsePEM([]byte(chain))
	if err == nil && len(m.certs) == 0 {
		err = errors.New("there is no certificate")
	}
	if err != nil {
		return time.Time{}, err
	}
	return halfLife(m.certs[0]), nil
}

// pinOf is the hash by which a token names an authority: of its public key, so
// that it outlives a renewed certificate.
func pinOf(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// trustID names a set of authorities, whatever their order.
func trustID(roots []*x509.Certificate) string {
	pins := make([]string, len(roots))
	for i, c := range roots {
		pins[i] = pinOf(c)
	}
	slices.Sort(pins)
	sum := sha256.Sum256([]byte(strings.Join(pins, "\n")))
	return hex.EncodeToString(sum[:8])
}

// isRoot reports whether cert is an authority that signed itself.
func isRoot(cert *x509.Certificate) bool {
	return cert.IsCA && cert.CheckSignatureFrom(cert) == nil
}

// splitRoots parts certificates into those that lead to the root and the root
// CAs at their end. More than one root is what a rotation of the CA looks like.
func splitRoots(certs []*x509.Certificate) (chain, roots []*x509.Certificate, err error) {
	for _, c := range certs {
		switch {
		case isRoot(c):
			roots = append(roots, c)
		case len(roots) > 0:
			return nil, nil, errors.New("a certificate follows the authority's")
		default:
			chain = append(chain, c)
		}
	}
	if len(chain) == 0 || len(roots) == 0 {
		return nil, nil, fmt.Errorf("it holds %d certificates of its own and %d of authorities, want at least one of each", len(chain), len(roots))
	}
	return chain, roots, nil
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// leadsTo checks signatures, constraints and usages of chain up to the roots.
// Whether it is valid today is not asked: a node that was off for two years
// still has its identity, and the handshake says that it expired.
func leadsTo(chain, roots []*x509.Certificate) error {
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         poolOf(roots),
		Intermediates: poolOf(chain[1:]),
		CurrentTime:   chain[0].NotAfter, // an authority outlives what it signs
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("its certificate does not lead to its authority: %w", err)
	}
	return nil
}
