package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// clusterFile holds the certificate of a cluster's authority and the root CA.
const clusterFile = "cluster-ca.pem"

const rejoin = "restore it from a backup, or remove it and join again with a new token"

// ClusterAuthority certifies a cluster's own server, its workers and its
// operators, with or without the root. It is safe for concurrent use.
type ClusterAuthority struct {
	issuer  issuer
	cluster string
	roots   []*x509.Certificate
}

// SaveCluster stores what Authority.SignCluster returned for the key of
// EnsureClusterKey in dir, with the root CA, in one step. What does not fit
// together is refused and changes nothing.
func SaveCluster(dir, chain, ca string) error {
	text := joinPEM(chain, ca)
	if _, err := newClusterAuthority(dir, []byte(text)); err != nil {
		return fmt.Errorf("the certificate received for this cluster cannot be used: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, clusterFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("store the cluster's authority: %w", err)
	}
	return nil
}

// OpenClusterAuthority loads the authority of a cluster from dir. The error
// wraps os.ErrNotExist when the cluster has not joined yet.
func OpenClusterAuthority(dir string) (*ClusterAuthority, error) {
	path := filepath.Join(dir, clusterFile)
	data, err := atomicfile.ReadBounded(path, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("open the cluster's authority: %w", err)
	}
	c, err := newClusterAuthority(dir, data)
	if err != nil {
		return nil, damaged(path, notMissing(err), rejoin)
	}
	return c, nil
}

func newClusterAuthority(dir string, data []byte) (*ClusterAuthority, error) {
	key, err := readKey(filepath.Join(dir, clusterKeyFile))
	if err != nil {
		return nil, err
	}
	chain, roots, err := parseChain(data)
	if err != nil {
		return nil, err
	}
	cert := chain[0]
	if !cert.IsCA || len(chain) != 1 || len(cert.PermittedURIDomains) != 1 {
		return nil, errors.New("its certificate is not that of a cluster's authority")
	}
	if !holds(cert, key) {
		return nil, errors.New("its certificate was made for another key")
	}
	cluster, isCluster := strings.CutSuffix(cert.PermittedURIDomains[0], clusterSuffix)
	if err := checkLabel(cluster); err != nil || !isCluster {
		return nil, fmt.Errorf("its certificate is for %q, which is not a cluster", cert.PermittedURIDomains[0])
	}
	return &ClusterAuthority{
		issuer:  issuer{key: key, cert: cert, above: certPEM(cert)},
		cluster: cluster,
		roots:   roots,
	}, nil
}

// Cluster is the name of the cluster.
func (c *ClusterAuthority) Cluster() string { return c.cluster }

// Pool holds the root CA, for verifying peers.
func (c *ClusterAuthority) Pool() *x509.CertPool { return poolOf(c.roots) }

// PEM is the certificate of the root CA.
func (c *ClusterAuthority) PEM() string { return certPEM(c.roots...) }

// Pin is the SHA-256 of the root CA's public key, in hex: what a token of this
// cluster carries.
func (c *ClusterAuthority) Pin() string { return pinOf(c.roots[0]) }

// RootID is Authority.ID of the root above.
func (c *ClusterAuthority) RootID() string { return rootID(c.roots[0]) }

// RenewAt is when half of the life of the cluster's certificate is over.
func (c *ClusterAuthority) RenewAt() time.Time { return halfLife(c.issuer.cert) }

// Issue certifies the cluster's server, one of its workers or one of its
// operators and returns the PEM chain up to, and without, the root CA.
func (c *ClusterAuthority) Issue(r LeafRequest, now time.Time) (chain string, err error) {
	// What a client would refuse is refused here, where it can be explained.
	if r.Subject.Role == RoleRoot || r.Subject.Cluster != c.cluster {
		return "", fmt.Errorf("issue a certificate for %s: cluster %s signs only for itself", r.Subject, c.cluster)
	}
	outside := func(name string) bool {
		return name != ClusterName(c.cluster) && !strings.HasSuffix(name, "."+ClusterName(c.cluster))
	}
	if i := slices.IndexFunc(r.DNSNames, outside); i >= 0 {
		return "", fmt.Errorf("issue a certificate for %s: host name %q is not below %s", r.Subject, r.DNSNames[i], ClusterName(c.cluster))
	}
	if len(r.IPs) > 0 {
		return "", fmt.Errorf("issue a certificate for %s: a cluster cannot certify addresses; clients use the server name", r.Subject)
	}
	return c.issuer.leaf(r, now)
}

// NewAdmin makes key and certificate of an operator of this cluster, for a
// context file. The key is not kept.
func (c *ClusterAuthority) NewAdmin(name string, now time.Time) (chain, key string, err error) {
	return newAdmin(&c.issuer, Subject{Role: RoleAdmin, Cluster: c.cluster, Name: name}, now)
}
