package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// leasePrefix keeps a signed lease apart from anything else that a cluster signs,
// as proofPrefix does.
const leasePrefix = "verge lease of the service network 1\n"

// maxLease bounds what is read of a signed lease, in bytes.
const maxLease = 4 << 10

// SignLease signs what a worker of this cluster has of the service network.
func (c *ClusterAuthority) SignLease(l wire.Lease) (wire.SignedLease, error) {
	if l.Cluster != c.cluster {
		return wire.SignedLease{}, fmt.Errorf("sign a lease of cluster %q: cluster %s signs only for itself", l.Cluster, c.cluster)
	}
	body, err := json.Marshal(l)
	if err != nil {
		return wire.SignedLease{}, fmt.Errorf("sign a lease: %w", err)
	}
	sum := sha256.Sum256(append([]byte(leasePrefix), body...))
	sig, err := ecdsa.SignASN1(rand.Reader, c.current.Load().issuer.key, sum[:])
	if err != nil {
		return wire.SignedLease{}, fmt.Errorf("sign a lease: %w", err)
	}
	return wire.SignedLease{Body: body, Sig: sig}, nil
}

// VerifyLease returns the lease of the worker whose certificate chain (its own
// first) this is. It is an error if the chain does not lead to a root that id
// trusts now, if a key in it was revoked, if it is not a worker's, or if the lease
// is another worker's or not signed by the authority of the worker's cluster. That
// may have been certified anew since, also under another root: what counts is that
// its key is the same.
func (id *Identity) VerifyLease(chain []*x509.Certificate, s wire.SignedLease) (wire.Lease, error) {
	l, err := id.verifyLease(chain, s)
	if err != nil {
		return wire.Lease{}, fmt.Errorf("lease of the service network: %w", err)
	}
	return l, nil
}

func (id *Identity) verifyLease(chain []*x509.Certificate, s wire.SignedLease) (wire.Lease, error) {
	var l wire.Lease
	switch {
	case len(chain) == 0:
		return l, errors.New("there is no certificate with it")
	case len(s.Body)+len(s.Sig) > maxLease:
		return l, fmt.Errorf("it has %d bytes, at most %d are read", len(s.Body)+len(s.Sig), maxLease)
	}
	pool := id.current.Load().pool
	var chains [][]*x509.Certificate
	err := id.Clock.Check(func(at time.Time) (err error) {
		chains, err = chain[0].Verify(x509.VerifyOptions{
			Roots: pool, Intermediates: poolOf(chain[1:]), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		})
		return err
	})
	if err != nil {
		return l, fmt.Errorf("its certificate: %w", err)
	}
	subject, err := SubjectOf(chain[0])
	if err != nil {
		return l, err
	}
	if subject.Role != RoleWorker {
		return l, fmt.Errorf("%s is no worker", subject)
	}
	if err := signedBy(id.Revoked, chains, s); err != nil {
		return l, err
	}
	if err := json.Unmarshal(s.Body, &l); err != nil {
		return l, fmt.Errorf("it cannot be read: %w", err)
	}
	if l.Cluster != subject.Cluster || l.Worker != subject.Name {
		return l, fmt.Errorf("it is that of worker %.63q of cluster %.63q, the certificate is that of %s", l.Worker, l.Cluster, subject)
	}
	if !l.Prefix.IsValid() || l.Prefix.Bits() != 48 || !l.Prefix.Addr().Is6() || !l.Prefix.Addr().IsPrivate() || l.Number == 0 {
		return l, fmt.Errorf("it has prefix %s and number %d", l.Prefix, l.Number)
	}
	return l, nil
}

// signedBy looks for a chain without a revoked key, whose authority right above
// the worker has signed.
func signedBy(revoked *Revoked, chains [][]*x509.Certificate, s wire.SignedLease) error {
	sum := sha256.Sum256(append([]byte(leasePrefix), s.Body...))
	err := errors.New("it is not signed by the authority of its cluster")
	for _, chain := range chains {
		if len(chain) < 3 { // worker, cluster, root
			continue
		}
		if r := revoked.Refuses(chain); r != nil {
			err = r
			continue
		}
		if key, ok := chain[1].PublicKey.(*ecdsa.PublicKey); ok && ecdsa.VerifyASN1(key, sum[:], s.Sig) {
			return nil
		}
	}
	return err
}
