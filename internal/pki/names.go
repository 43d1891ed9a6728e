package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// RootName is the TLS server name of every root.
const RootName = "root.verge.internal"

const (
	clusterSuffix = ".cluster.verge.internal"
	uriScheme     = "verge"
	maxLabel      = 63
)

// ClusterName is the TLS server name of a cluster.
func ClusterName(cluster string) string { return cluster + clusterSuffix }

// WorkerName is the TLS server name of a worker.
func WorkerName(cluster, worker string) string { return worker + "." + ClusterName(cluster) }

// Role is what the holder of a certificate is.
type Role string

// The roles that a certificate can name.
const (
	RoleRoot    Role = "root"
	RoleCluster Role = "cluster"
	RoleWorker  Role = "worker"
	RoleAdmin   Role = "admin"
	RolePlugin  Role = "plugin"
)

// Subject is who holds a certificate. In the certificate it is a URI:
//
//	verge://root.verge.internal/root
//	verge://root.verge.internal/admin/<name>
//	verge://<cluster>.cluster.verge.internal/cluster
//	verge://<cluster>.cluster.verge.internal/worker/<name>
//	verge://<cluster>.cluster.verge.internal/admin/<name>
//	verge://<cluster>.cluster.verge.internal/plugin/<name>
//
// The host part is what the name constraints of a cluster's certificate bind.
type Subject struct {
	Role Role
	// Cluster is "" for the root and its administrators, else a DNS label.
	Cluster string
	// Name of the worker, administrator or plugin, a DNS label; "" for the other roles.
	Name string
}

// String is the subject for logs and histories: "root", "cluster/edge",
// "worker/edge/w1", "admin/ann", "admin/edge/ann".
func (s Subject) String() string {
	parts := []string{string(s.Role)}
	if s.Cluster != "" {
		parts = append(parts, s.Cluster)
	}
	if s.Name != "" {
		parts = append(parts, s.Name)
	}
	return strings.Join(parts, "/")
}

// Validate says what is wrong with a subject, nil if nothing.
func (s Subject) Validate() error {
	needCluster, needName := false, false
	switch s.Role {
	case RoleRoot:
	case RoleCluster:
		needCluster = true
	case RoleWorker, RolePlugin:
		needCluster, needName = true, true
	case RoleAdmin:
		needCluster, needName = s.Cluster != "", true
	default:
		return fmt.Errorf("unknown role %q: want root, cluster, worker, plugin or admin", s.Role)
	}
	if err := checkPart(s.Role, "cluster", s.Cluster, needCluster); err != nil {
		return err
	}
	return checkPart(s.Role, "name", s.Name, needName)
}

func checkPart(role Role, what, value string, needed bool) error {
	if !needed {
		if value != "" {
			return fmt.Errorf("a subject with role %s has no %s, got %q", role, what, value)
		}
		return nil
	}
	if err := CheckLabel(value); err != nil {
		return fmt.Errorf("%s of a subject with role %s: %w", what, role, err)
	}
	return nil
}

// CheckLabel holds names to DNS labels in lower case: whatever else a name can
// become part of (host names, subjects of the bus, files), it stays one part.
func CheckLabel(s string) error {
	if s == "" || len(s) > maxLabel {
		return fmt.Errorf("name of %d characters: want 1 to %d", len(s), maxLabel)
	}
	for i := range len(s) {
		c := s[i]
		inner := c == '-' && i > 0 && i < len(s)-1
		if !inner && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return fmt.Errorf("name %q: want lower-case letters, digits and inner hyphens", s)
		}
	}
	return nil
}

// uri is the form of a valid subject in a certificate.
func (s Subject) uri() *url.URL {
	u := &url.URL{Scheme: uriScheme, Host: RootName, Path: "/" + string(s.Role)}
	if s.Cluster != "" {
		u.Host = ClusterName(s.Cluster)
	}
	if s.Name != "" {
		u.Path += "/" + s.Name
	}
	return u
}

// serverName is the DNS name that belongs to a subject, "" for administrators and
// plugins.
func (s Subject) serverName() string {
	switch s.Role {
	case RoleRoot:
		return RootName
	case RoleCluster:
		return ClusterName(s.Cluster)
	case RoleWorker:
		return WorkerName(s.Cluster, s.Name)
	case RoleAdmin, RolePlugin:
	}
	return ""
}

// SubjectOf reads the subject of a leaf certificate. It does not verify the
// certificate: see PeerSubject.
func SubjectOf(cert *x509.Certificate) (Subject, error) {
	if cert.IsCA {
		return Subject{}, errors.New("certificate is an authority's, not a node's or a person's")
	}
	// Exactly one: with two, readers could disagree on which one counts.
	if len(cert.URIs) != 1 {
		return Subject{}, fmt.Errorf("certificate names %d subjects, want 1", len(cert.URIs))
	}
	u := cert.URIs[0]
	role, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	s := Subject{Role: Role(role), Name: name}
	if u.Host != RootName {
		s.Cluster = strings.TrimSuffix(u.Host, clusterSuffix)
	}
	if err := s.Validate(); err != nil {
		return Subject{}, fmt.Errorf("subject %q of the certificate: %w", u, err)
	}
	// Only the canonical spelling: no ports, users, queries, escapes, capitals.
	if u.String() != s.uri().String() {
		return Subject{}, fmt.Errorf("subject %q of the certificate is not written as %q", u, s.uri())
	}
	return s, nil
}

// PeerSubject is who the other side of a connection proved to be. It is an
// error when the peer sent no certificate or the connection did not verify it.
func PeerSubject(cs tls.ConnectionState) (Subject, error) {
	if len(cs.VerifiedChains) == 0 || len(cs.VerifiedChains[0]) == 0 {
		return Subject{}, errors.New("the other side showed no certificate of this root: it needs an identity (verge token create) or a context (verge context)")
	}
	return SubjectOf(cs.VerifiedChains[0][0])
}
