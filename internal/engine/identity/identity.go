package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// Identity is the worker's certificate as the agent keeps it in a directory. It is read again when
// the directory has changed, as every replacement of a file in it does; that costs one stat per
// handshake.
type Identity struct {
	dir string
	log *slog.Logger
	// clock by which certificates are judged; nil is the machine's.
	clock *pki.Clock
	// revoked are keys that no lease may have; nil: none.
	revoked *pki.Revoked

	mu      sync.Mutex // guards below
	current *pki.Identity
	read    time.Time // of the directory, when current was read; zero: it is to be read again
	failed  time.Time // of the directory, when that failed last
}

// New is the identity in a directory, judged by the clock that the agent keeps there;
// revoked are keys that no lease may have, nil for none.
func New(dir string, revoked *pki.Revoked, log *slog.Logger) *Identity {
	return &Identity{dir: dir, log: log, clock: pki.ReadClock(dir), revoked: revoked}
}

// settles is how long after a change of the directory another one may have the same time: clocks
// of file systems are coarse, and a missed certificate would never be read.
const settles = time.Second

// noted is the time of a directory as it is remembered when its files have been read.
func noted(changed, now time.Time) time.Time {
	if age := now.Sub(changed); age >= 0 && age < settles {
		return time.Time{}
	}
	return changed
}

// ServerTLS is what the router's handshakes use.
func (i *Identity) ServerTLS() (*tls.Config, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fi, err := os.Stat(i.dir)
	if err != nil {
		return nil, fmt.Errorf("identity of this worker: %w", err)
	}
	switch {
	case i.current == nil:
		if i.current, err = pki.LoadIdentity(i.dir); err != nil {
			return nil, err
		}
		i.current.Clock, i.current.Revoked = i.clock, i.revoked
		i.reloadClock()
		i.read = noted(fi.ModTime(), time.Now())
	case !fi.ModTime().Equal(i.read):
		err := i.current.Reload()
		i.reloadClock()
		if err == nil {
			i.read = noted(fi.ModTime(), time.Now())
			break
		}
		// It is tried again by the next handshake: this process may have been out of descriptors.
		if !fi.ModTime().Equal(i.failed) {
			i.failed = fi.ModTime()
			i.log.Error("cannot use a renewed identity; the old one stays", "error", err)
		}
	}
	return i.current.ServerTLS(tls.RequireAndVerifyClientCert), nil
}

// ClientTLS is what connections to the server of a name use.
func (i *Identity) ClientTLS(name string) (*tls.Config, error) {
	if _, err := i.ServerTLS(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current.ClientTLS(name), nil
}

// AwayTLS is ServerTLS for connections to nodes beyond the cluster.
func (i *Identity) AwayTLS() (*tls.Config, error) {
	if _, err := i.ServerTLS(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current.AwayTLS(tls.RequireAndVerifyClientCert), nil
}

// Hidden reports whether nodes beyond the cluster see another name than that of the worker.
func (i *Identity) Hidden() bool {
	if _, err := i.ServerTLS(); err != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	_, ok := i.current.Away()
	return ok
}

// Verify returns the lease of the worker with a certificate chain.
func (i *Identity) Verify(chain []*x509.Certificate, s wire.SignedLease) (wire.Lease, error) {
	if _, err := i.ServerTLS(); err != nil {
		return wire.Lease{}, err
	}
	i.mu.Lock()
	id := i.current
	i.mu.Unlock()
	return id.VerifyLease(chain, s)
}

// reloadClock tells the clock what has changed in the directory: the certificate, or the time that
// the agent has settled on. The mutex is held.
func (i *Identity) reloadClock() {
	if i.clock != nil {
		i.clock.Reload()
		i.clock.Own(i.current.Leaf())
	}
}

// PeerAllowed refuses peers that are not workers: users and orchestrators have
// certificates of the same authority; and workers whose keys were revoked.
func PeerAllowed(revoked *pki.Revoked) func(tls.ConnectionState) error {
	return func(cs tls.ConnectionState) error {
		s, err := pki.PeerSubject(cs)
		if err != nil {
			return err
		}
		if s.Role != pki.RoleWorker {
			return fmt.Errorf("%s is not a worker", s)
		}
		return revoked.RefusesPeer(cs)
	}
}
