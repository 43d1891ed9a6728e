package data

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/tlsconf"
)

const (
	// ALPN keeps a data port from being mistaken for another TLS port of Verge
	// whose certificates come from the same authority.
	ALPN = "verge-data/1"
	// ticketLife is how long one key protects session tickets; a ticket is
	// accepted for at most two of them.
	ticketLife = 24 * time.Hour
	// sessions kept for resumption: one per worker this one talks to.
	sessions = 1024
)

// Identity makes the TLS configurations of the data path from Options.TLS.
type Identity struct {
	source  func() (*tls.Config, error)
	away    func() (*tls.Config, error) // towards other clusters
	allowed func(tls.ConnectionState) error
	cache   tls.ClientSessionCache

	mu     sync.Mutex // guards below
	keys   [][32]byte // of session tickets, newest first
	keysAt time.Time
}

// NewIdentity shows what source returns, and to workers of other clusters what away does (nil:
// the same). allowed refuses peers by an error; nil accepts every verified one.
func NewIdentity(source, away func() (*tls.Config, error), allowed func(tls.ConnectionState) error) *Identity {
	return &Identity{source: source, away: away, allowed: allowed, cache: tls.NewLRUClientSessionCache(sessions)}
}

var errNoDataPath = errors.New("this worker has no data path to others (no TLS identity)")

// base is what both directions have in common.
func (d *Identity) base(source func() (*tls.Config, error)) (*tls.Config, error) {
	if source == nil {
		return nil, errNoDataPath
	}
	given, err := source()
	if err != nil {
		return nil, fmt.Errorf("own TLS identity: %w", err)
	}
	c := tlsconf.Harden(given)
	if c.RootCAs == nil {
		c.RootCAs = c.ClientCAs
	}
	if c.ClientCAs == nil {
		c.ClientCAs = c.RootCAs
	}
	if c.RootCAs == nil {
		// Without a pool crypto/tls would trust the authorities of the system.
		return nil, errors.New("own TLS identity: no pool of authorities for peers")
	}
	c.NextProtos = []string{ALPN}
	c.InsecureSkipVerify = false
	c.DynamicRecordSizingDisabled = true // nobody waits for the first bytes of a page here
	c.GetConfigForClient = nil
	if before := c.VerifyConnection; before != nil || d.allowed != nil {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if before != nil {
				if err := before(s); err != nil {
					return err
				}
			}
			if d.allowed != nil {
				return d.allowed(s)
			}
			return nil
		}
	}
	return c, nil
}

func (d *Identity) client(serverName string, away bool) (*tls.Config, error) {
	source := d.source
	if away && d.away != nil {
		source = d.away
	}
	c, err := d.base(source)
	if err != nil {
		return nil, err
	}
	c.ServerName = serverName
	c.ClientSessionCache = d.cache
	return c, nil
}

func (d *Identity) server(now time.Time) (*tls.Config, error) {
	c, err := d.base(d.source)
	if err != nil {
		return nil, err
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	// Options.TLS may return another Config each time, and tickets made by one
	// would mean nothing to the next: the keys are the router's.
	keys, err := d.ticketKeys(now)
	if err != nil {
		return nil, err
	}
	c.SetSessionTicketKeys(keys)
	return c, nil
}

func (d *Identity) ticketKeys(now time.Time) ([][32]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.keys) == 0 || now.Sub(d.keysAt) > ticketLife {
		var k [32]byte
		if _, err := rand.Read(k[:]); err != nil {
			return nil, fmt.Errorf("make a session ticket key: %w", err)
		}
		d.keys = append([][32]byte{k}, d.keys[:min(1, len(d.keys))]...)
		d.keysAt = now
	}
	return d.keys, nil
}

// strictConn is the TCP connection under a TLS one. crypto/tls forgives an end
// without closing alert between two records, as browsers must; here it would
// make a connection that broke look like one that ended.
type strictConn struct{ *http1.Direct }

func newStrictConn(c *net.TCPConn) strictConn { return strictConn{http1.NewDirect(c)} }

var errTruncated = fmt.Errorf("connection ended without notice: %w", io.ErrUnexpectedEOF)

// Read implements net.Conn.
func (c strictConn) Read(p []byte) (int, error) {
	n, err := c.Direct.Read(p)
	if errors.Is(err, io.EOF) {
		err = errTruncated
	}
	return n, err
}
