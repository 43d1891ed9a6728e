package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// clusterFile holds the certificate of a cluster's authority and the root CA.
const clusterFile = "cluster-ca.pem"

const rejoin = "restore it from a backup, or remove it and join again with a new token"

// ClusterAuthority certifies a cluster's own server, its workers and its
// operators, with or without the root. It is safe for concurrent use.
type ClusterAuthority struct {
	dir     string
	cluster string
	current atomic.Pointer[clusterState]
}

// clusterState is one loaded state of a ClusterAuthority; never changed.
type clusterState struct {
	issuer issuer
	// chain are the certificates of the cluster's authority: more than one while
	// the root's is rotated, all of the same key.
	chain, roots []*x509.Certificate
	cluster      string
}

// SaveCluster stores what Authority.SignCluster returned for the key of
// EnsureClusterKey in dir, with the root CA, in one step. What does not fit
// together is refused and changes nothing.
func SaveCluster(dir, chain, ca string) error {
	text := joinPEM(chain, ca)
	if _, err := newClusterState(dir, []byte(text)); err != nil {
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
	c := &ClusterAuthority{dir: dir}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload picks up what SaveCluster stored since. On an error what was there
// stays in use.
func (c *ClusterAuthority) Reload() error {
	path := filepath.Join(c.dir, clusterFile)
	data, err := atomicfile.ReadBounded(path, maxPEM)
	if err != nil {
		return fmt.Errorf("open the cluster's authority: %w", err)
	}
	next, err := newClusterState(c.dir, data)
	if err == nil && c.cluster != "" && c.cluster != next.cluster {
		err = fmt.Errorf("it is of cluster %s, this is %s", next.cluster, c.cluster)
	}
	if err != nil {
		return damaged(path, notMissing(err), rejoin)
	}
	c.cluster = next.cluster
	c.current.Store(next)
	return nil
}

func newClusterState(dir string, data []byte) (*clusterState, error) {
	key, err := readKey(filepath.Join(dir, clusterKeyFile))
	if err != nil {
		return nil, err
	}
	chain, roots, err := parseChain(data)
	if err != nil {
		return nil, err
	}
	name := ""
	for _, cert := range chain {
		own, err := clusterOf(cert, key)
		if err == nil && name != "" && own != name {
			err = errors.New("its certificates are for two clusters")
		}
		if err == nil {
			err = leadsTo([]*x509.Certificate{cert}, roots)
		}
		if err != nil {
			return nil, err
		}
		name = own
	}
	return &clusterState{
		// The newest one: what it signs may live longest.
		issuer: issuer{key: key, cert: chain[len(chain)-1], above: certPEM(chain...)},
		chain:  chain, roots: roots, cluster: name,
	}, nil
}

// clusterOf is the name of the cluster whose authority has cert.
func clusterOf(cert *x509.Certificate, key *ecdsa.PrivateKey) (string, error) {
	if !cert.IsCA || len(cert.PermittedURIDomains) != 1 {
		return "", errors.New("its certificate is not that of a cluster's authority")
	}
	if !holds(cert, key) {
		return "", errors.New("its certificate was made for another key")
	}
	cluster, isCluster := strings.CutSuffix(cert.PermittedURIDomains[0], clusterSuffix)
	if err := CheckLabel(cluster); err != nil || !isCluster {
		return "", fmt.Errorf("its certificate is for %q, which is not a cluster", cert.PermittedURIDomains[0])
	}
	return cluster, nil
}

// Cluster is the name of the cluster.
func (c *ClusterAuthority) Cluster() string { return c.cluster }

// Roots are the certificates of the root CA: see Authority.Certs.
func (c *ClusterAuthority) Roots() []*x509.Certificate { return c.current.Load().roots }

// Pool holds the root CA, for verifying peers.
func (c *ClusterAuthority) Pool() *x509.CertPool { return poolOf(c.Roots()) }

// PEM is the certificate of the root CA; of both while it is rotated.
func (c *ClusterAuthority) PEM() string { return certPEM(c.Roots()...) }

// Pin is the SHA-256 of the root CA's public key, in hex: what a token of this
// cluster carries.
func (c *ClusterAuthority) Pin() string { return pinOf(c.Roots()[0]) }

// NextPin is Pin of the next CA, "" while the root's authority is not rotated.
func (c *ClusterAuthority) NextPin() string { return nextPin(c.Roots()) }

// RootID is Authority.ID of the root above.
func (c *ClusterAuthority) RootID() string { return rootID(c.Roots()[0]) }

// TrustID names what is trusted: see Identity.TrustID.
func (c *ClusterAuthority) TrustID() string { return trustID(c.Roots()) }

// Cert is the certificate of the cluster's authority that lasts longest. The
// caller must not change it.
func (c *ClusterAuthority) Cert() *x509.Certificate { return c.current.Load().issuer.cert }

// PublicKey is PKIX DER of the key of the cluster's authority.
func (c *ClusterAuthority) PublicKey() []byte { return c.Cert().RawSubjectPublicKeyInfo }

// RenewAt is when half of the life of the cluster's certificate is over.
func (c *ClusterAuthority) RenewAt() time.Time { return halfLife(c.Cert()) }

// Chain is the PEM that leads from what this authority signs to the root CA.
func (c *ClusterAuthority) Chain() string { return c.current.Load().issuer.above }

// KeyID names the key that this authority signs with.
func (c *ClusterAuthority) KeyID() string { return hex.EncodeToString(c.Cert().SubjectKeyId) }

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
	return c.current.Load().issuer.leaf(r, now)
}

// NewAdmin makes key and certificate of an operator of this cluster, for a
// context file. The key is not kept.
func (c *ClusterAuthority) NewAdmin(name string, now time.Time) (chain, key string, err error) {
	return newAdmin(&c.current.Load().issuer, Subject{Role: RoleAdmin, Cluster: c.cluster, Name: name}, now)
}
