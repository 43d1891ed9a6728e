package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// ErrRevoked is wrapped by the error for a key that does not count any more.
var ErrRevoked = errors.New("its key was revoked")

// KeyHash names a key by the SHA-256 of its public part (PKIX DER), in hex.
func KeyHash(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:])
}

// Revoked are the keys that do not count any more, whatever certificates they
// have. The zero value knows none. It is safe for concurrent use.
type Revoked struct {
	keys atomic.Pointer[map[string]struct{}]
}

// RevokedBy is an entry for Set: a key (KeyHash) that a cluster has revoked, or
// the root ("").
func RevokedBy(cluster, hash string) string { return cluster + "/" + hash }

// Set replaces what is known. What a cluster says counts for certificates of that
// cluster only, so that none can speak against the nodes of another.
func (r *Revoked) Set(entries []string) {
	keys := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		keys[e] = struct{}{}
	}
	r.keys.Store(&keys)
}

// Refuses says whether a certificate is of no use because its key, or that of an
// authority in the chain, was revoked; nil if not. A nil Revoked knows none.
func (r *Revoked) Refuses(chain []*x509.Certificate) error {
	if r == nil {
		return nil
	}
	keys := r.keys.Load()
	if keys == nil || len(*keys) == 0 {
		return nil
	}
	for _, c := range chain {
		hash := pinOf(c)
		for _, by := range []string{"", clusterOn(c)} {
			if _, ok := (*keys)[RevokedBy(by, hash)]; ok {
				return fmt.Errorf("certificate of %q: %w", c.Subject.CommonName, ErrRevoked)
			}
		}
	}
	return nil
}

// clusterOn is the cluster that a certificate is of; "" for none.
func clusterOn(c *x509.Certificate) string {
	if c.IsCA {
		if len(c.PermittedURIDomains) == 1 {
			return strings.TrimSuffix(c.PermittedURIDomains[0], clusterSuffix)
		}
		return ""
	}
	s, err := SubjectOf(c)
	if err != nil {
		return ""
	}
	return s.Cluster
}

// RefusesPeer is Refuses for the other side of a connection.
func (r *Revoked) RefusesPeer(cs tls.ConnectionState) error { return r.Refuses(cs.PeerCertificates) }
