package busserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/blobstore"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/handshakes"
	"github.com/verge-edge/verge/internal/bus/logstore"
	"github.com/verge-edge/verge/internal/bus/presence"
	"github.com/verge-edge/verge/internal/tlsconf"
)

// kindLeaf is what the server calls a leaf link in its events, kindClient a
// client.
const (
	kindLeaf   = "Leafnode"
	kindClient = "Client"
)

const (
	// relinkDelay is the pause before the link to the root is tried again; the
	// server adds as much again at random.
	relinkDelay = time.Second
	// The name of the other end in the presence of a cluster's link.
	theRoot = "root"
)

// ClusterOptions say how a cluster's server runs. All fields are required but
// Upstream.
type ClusterOptions struct {
	// Name of the cluster.
	Name string
	// Dir is for this server alone: the log and the keys.
	Dir string
	// Listen is the address of the port for workers, host:port; an empty host
	// means all addresses, port 0 any free one.
	Listen string
	// TLS of that port: certificate, and ClientCAs for those of workers. TLS 1.3
	// and a client certificate are demanded whatever it says.
	TLS *tls.Config
	// Peer names the worker or plugin that a certificate belongs to. Its token must name
	// the same.
	Peer Peer
	// Upstream is the root; nil: none yet (SetUpstream).
	Upstream *Upstream
	// Closed: nobody is let in before Open, so that workers find somebody who answers them.
	Closed bool
	Log    *slog.Logger
}

// Upstream is a root as its cluster reaches it. All fields are required.
type Upstream struct {
	// Addresses of the root's link port, host:port; tried in turn.
	Addresses []string
	// TLS presents the cluster's certificate (GetClientCertificate, so that a
	// renewed one is used), trusts the root's, and has its ServerName.
	TLS *tls.Config
	// JWT returns the token that the root issued for Key; asked before every
	// attempt.
	JWT func() string
	Key credentials.Key
}

// ClusterServer is the bus of a cluster.
type ClusterServer struct {
	*embedded
	store   *logstore.Store
	blobs   *blobstore.Store
	local   *busconn.Conn
	up      *busconn.Conn
	workers *presence.Presence
	link    *presence.Presence
	gate    *handshakes.Limiter
	addr    string
	late    bool // it listens from Open on

	upstreamMu sync.Mutex
	upstreams  int // guarded by upstreamMu; how many were set
}

// StartCluster starts the server of a cluster and opens its store; ctx bounds
// the start only. It does not wait for the root. Only one process can have Dir.
func StartCluster(ctx context.Context, o ClusterOptions) (*ClusterServer, error) {
	if err := credentials.CheckNodeName("cluster", o.Name); err != nil {
		return nil, err
	}
	secure, err := tlsconf.MutualServer(o.TLS)
	if err == nil && o.Peer == nil {
		err = errors.New("no Peer: nothing says whom a certificate names")
	}
	if err != nil {
		return nil, fmt.Errorf("worker port of the cluster: %w", err)
	}
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("worker port of the cluster: %w", err)
	}
	addr, err := checkFree(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("worker port of the cluster: %w", err)
	}
	opts := baseOptions("verge-cluster-"+o.Name, o.Name, o.Dir)
	// Where thousands wait at the port, the server should have what it needs before they are
	// accepted: to change its options it waits for all that are at their handshakes. Of a port
	// that is not known yet, nobody knows.
	known := port > 0
	opts.DontListen, opts.Host, opts.Port = known, host, port
	gate := handshakes.New(handshakes.Long)
	opts.TLSConfig, opts.TLSHandshakeFirst, opts.TLSTimeout = gate.Guard(secure), true, busconn.TLSTimeout.Seconds()
	opts.LeafNode.ReconnectInterval = relinkDelay
	opts.LeafNode.DialTimeout = busconn.DialTimeout
	e, err := start(ctx, o.Dir, opts, o.Peer, o.Log,
		credentials.AccountSystem, credentials.AccountStore, credentials.AccountLocal, credentials.AccountUp)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &ClusterServer{embedded: e, gate: gate, addr: addr, late: known}
	if !known {
		c.addr = e.ns.Addr().String()
	}
	if err := c.open(ctx, o); err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if !o.Closed {
		if err := c.Open(); err != nil {
			c.Close()
			return nil, fmt.Errorf("start cluster: %w", err)
		}
	}
	return c, nil
}

// Open lets workers in, where ClusterOptions.Closed kept them out. It is called once.
func (c *ClusterServer) Open() error {
	if c.late {
		c.ns.AcceptLoop(make(chan struct{}))
		if c.ns.Addr() == nil {
			return errors.New("worker port of the cluster: the bus server does not listen: " + c.lines.last())
		}
	}
	c.gate.Open()
	return nil
}

func (c *ClusterServer) open(ctx context.Context, o ClusterOptions) error {
	var err error
	if c.local, err = c.connect(credentials.AccountLocal, false); err != nil {
		return err
	}
	if c.up, err = c.connect(credentials.AccountUp, true); err != nil {
		return err
	}
	if err := c.listen(); err != nil {
		return err
	}
	own, err := c.connect(credentials.AccountStore, false)
	if err != nil {
		return err
	}
	if c.store, err = logstore.Open(ctx, own.NC(), o.Dir, o.Log); err != nil {
		return err
	}
	if c.blobs, err = blobstore.Open(ctx, own.NC(), o.Dir, o.Log, c.dialStore); err != nil {
		return err
	}
	if o.Upstream != nil {
		return c.SetUpstream(*o.Upstream)
	}
	return nil
}

// listen starts to hear of workers and of the link.
func (c *ClusterServer) listen() error {
	local, err := c.auth.PublicKey(credentials.AccountLocal)
	if err != nil {
		return err
	}
	up, err := c.auth.PublicKey(credentials.AccountUp)
	if err != nil {
		return err
	}
	system, err := c.connect(credentials.AccountSystem, false)
	if err != nil {
		return err
	}
	c.workers = presence.New(c.log, func(info *server.ClientInfo) string {
		name := credentials.TokenName(info.Jwt)
		if info.Kind != kindClient || info.Account != local || credentials.CheckNodeName("worker", name) != nil {
			return "" // our own connections among them
		}
		return name
	})
	c.link = presence.New(c.log, func(info *server.ClientInfo) string {
		if info.Kind != kindLeaf {
			return ""
		}
		return theRoot
	})
	c.link.Listen(func(_ string, up bool) {
		if up {
			c.lines.refused.Store(false)
		}
		c.up.SetUp(up)
	})
	if err := c.link.Watch(system, up); err != nil {
		return err
	}
	if err := c.workers.Watch(system, local); err != nil {
		return err
	}
	return c.workers.Seed(c.ns)
}

// SetUpstream sets the root to link to, or replaces it. It does not wait for
// the link, which is tried for ever, every one to two seconds.
func (c *ClusterServer) SetUpstream(u Upstream) error {
	c.upstreamMu.Lock()
	defer c.upstreamMu.Unlock()
	c.upstreams++
	remote, err := c.remote(u, c.upstreams)
	if err != nil {
		return fmt.Errorf("link to the root: %w", err)
	}
	next := c.opts.Clone()
	next.LeafNode.Remotes = []*server.RemoteLeafOpts{remote}
	if err := c.ns.ReloadOptions(next); err != nil {
		return fmt.Errorf("link to the root: %w", err)
	}
	return nil
}

// DropUpstream ends the link, and the trying to have one.
func (c *ClusterServer) DropUpstream() error {
	c.upstreamMu.Lock()
	defer c.upstreamMu.Unlock()
	next := c.opts.Clone()
	next.LeafNode.Remotes = nil
	if err := c.ns.ReloadOptions(next); err != nil {
		return fmt.Errorf("end the link to the root: %w", err)
	}
	return nil
}

// remote makes the server's form of u. A remote cannot be changed while an
// attempt to connect is under way, only removed and another be added; the server
// tells them apart by their URLs, so each has a path of its own, which means
// nothing else.
func (c *ClusterServer) remote(u Upstream, generation int) (*server.RemoteLeafOpts, error) {
	secure, err := tlsconf.Client(u.TLS)
	if err != nil {
		return nil, err
	}
	if len(u.Addresses) == 0 || u.JWT == nil || u.Key.IsZero() {
		return nil, errors.New("addresses, token and key of the link are needed")
	}
	var urls []*url.URL
	for _, a := range u.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("address %q is not host:port: %w", a, err)
		}
		urls = append(urls, &url.URL{Scheme: "nats-leaf", Host: a, Path: fmt.Sprintf("/%d", generation)})
	}
	account, err := c.auth.PublicKey(credentials.AccountUp)
	if err != nil {
		return nil, err
	}
	return &server.RemoteLeafOpts{
		LocalAccount: account,
		URLs:         urls,
		// A callback, so that the seed is in no file but the caller's.
		SignatureCB: func(nonce []byte) (string, []byte, error) {
			sig, err := u.Key.Sign(nonce)
			return u.JWT(), sig, err
		},
		TLS: true, TLSConfig: secure, TLSTimeout: tlsTimeout, TLSHandshakeFirst: true,
		FirstInfoTimeout:        tlsTimeout * time.Second,
		Compression:             server.CompressionOpts{Mode: server.CompressionOff},
		IgnoreDiscoveredServers: true,
	}, nil
}

// Store returns the cluster's store.
func (c *ClusterServer) Store() bus.Store { return c.store }

// Blobs returns what the cluster keeps of large things.
func (c *ClusterServer) Blobs() bus.Blobs { return c.blobs }

// Local returns the connection among the workers. It may use every subject.
func (c *ClusterServer) Local() bus.Conn { return c.local }

// Up returns the connection to the root, by way of the link. Connected tells
// whether the link is up.
func (c *ClusterServer) Up() bus.Conn { return c.up }

// UpConnected is Up().Connected().
func (c *ClusterServer) UpConnected() (bool, <-chan struct{}) { return c.up.Connected() }

// Refused says whether the root has answered since the link was up last, and does
// not let this cluster in.
func (c *ClusterServer) Refused() bool { return c.lines.refused.Load() }

// Addr is the address of the port for workers.
func (c *ClusterServer) Addr() string { return c.addr }

// AddWorker returns the token with which the holder of the user key is worker
// id. A key that was revoked is admitted again; its earlier tokens are not.
func (c *ClusterServer) AddWorker(id, userPublicKey string) (userJWT string, err error) {
	if err := errors.Join(credentials.CheckNodeName("worker", id), credentials.CheckUserKey(userPublicKey)); err != nil {
		return "", fmt.Errorf("add worker: %w", err)
	}
	if c.auth.Revoked(credentials.AccountLocal, userPublicKey) {
		err := c.auth.Admit(credentials.AccountLocal, userPublicKey)
		if err == nil {
			err = c.refreshLocal()
		}
		if err != nil {
			return "", fmt.Errorf("add worker %s: %w", id, err)
		}
	}
	return c.auth.WorkerToken(id, userPublicKey)
}

// AddPlugin returns the token with which the holder of the user key is asked as the
// plugin name.
func (c *ClusterServer) AddPlugin(name, userPublicKey string) (userJWT string, err error) {
	if err := errors.Join(credentials.CheckNodeName("plugin", name), credentials.CheckUserKey(userPublicKey)); err != nil {
		return "", fmt.Errorf("add plugin: %w", err)
	}
	return c.auth.PluginToken(name, userPublicKey)
}

// RevokeWorker refuses all tokens that were issued so far for the key, for
// good, and cuts the connections of the worker.
func (c *ClusterServer) RevokeWorker(id, userPublicKey string) error {
	if err := errors.Join(credentials.CheckNodeName("worker", id), credentials.CheckUserKey(userPublicKey)); err != nil {
		return fmt.Errorf("revoke worker: %w", err)
	}
	err := c.auth.Revoke(credentials.AccountLocal, userPublicKey)
	if err == nil {
		err = c.refreshLocal()
	}
	if err != nil {
		return fmt.Errorf("revoke worker %s: %w", id, err)
	}
	return nil
}

// Revoked reports whether tokens for a key were revoked.
func (c *ClusterServer) Revoked(userPublicKey string) bool {
	return c.auth.Revoked(credentials.AccountLocal, userPublicKey)
}

// refreshLocal tells the server the current claims of the account of the workers.
func (c *ClusterServer) refreshLocal() error {
	claims, token, err := c.auth.AccountClaims(credentials.AccountLocal)
	if err != nil {
		return err
	}
	return c.refresh(claims, token)
}

// OnWorker calls fn for every worker that is connected, and then whenever one
// connects or its last connection ends. fn must not block and not call the
// server.
func (c *ClusterServer) OnWorker(fn func(id string, connected bool)) { c.workers.Listen(fn) }

// Close ends the store, the connections and the server, and waits for them.
func (c *ClusterServer) Close() {
	if c.blobs != nil {
		c.blobs.Close()
	}
	if c.store != nil {
		c.store.Close()
	}
	c.embedded.close()
}
