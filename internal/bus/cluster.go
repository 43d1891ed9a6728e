package bus

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
	Log      *slog.Logger
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
	Key Key
}

// ClusterServer is the bus of a cluster.
type ClusterServer struct {
	*embedded
	store   *store
	blobs   *blobStore
	local   *conn
	up      *conn
	workers *presence
	link    *presence
	addr    string

	upstreamMu sync.Mutex
	upstreams  int // guarded by upstreamMu; how many were set
}

// StartCluster starts the server of a cluster and opens its store; ctx bounds
// the start only. It does not wait for the root. Only one process can have Dir.
func StartCluster(ctx context.Context, o ClusterOptions) (*ClusterServer, error) {
	if err := checkNodeName("cluster", o.Name); err != nil {
		return nil, err
	}
	secure, err := hardenServer(o.TLS)
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
	if err := checkFree(o.Listen); err != nil {
		return nil, fmt.Errorf("worker port of the cluster: %w", err)
	}
	opts := baseOptions("verge-cluster-"+o.Name, o.Name, o.Dir)
	opts.DontListen, opts.Host, opts.Port = false, host, port
	gate := newTurnstile()
	opts.TLSConfig, opts.TLSHandshakeFirst = gate.guard(secure), true
	opts.LeafNode.ReconnectInterval = relinkDelay
	opts.LeafNode.DialTimeout = dialTimeout
	e, err := start(ctx, o.Dir, opts, o.Peer, o.Log, accountSystem, accountStore, accountLocal, accountUp)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &ClusterServer{embedded: e, addr: e.ns.Addr().String()}
	if err := c.open(ctx, o); err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	gate.open()
	return c, nil
}

func (c *ClusterServer) open(ctx context.Context, o ClusterOptions) error {
	var err error
	if c.local, err = c.connect(accountLocal, false); err != nil {
		return err
	}
	if c.up, err = c.connect(accountUp, true); err != nil {
		return err
	}
	if err := c.listen(); err != nil {
		return err
	}
	own, err := c.connect(accountStore, false)
	if err != nil {
		return err
	}
	if c.store, err = openStore(ctx, own.nc, o.Dir, o.Log); err != nil {
		return err
	}
	if c.blobs, err = openBlobs(ctx, c.store.js, o.Dir, o.Log, func() (*conn, error) { return c.connect(accountStore, false) }); err != nil {
		return err
	}
	if o.Upstream != nil {
		return c.SetUpstream(*o.Upstream)
	}
	return nil
}

// listen starts to hear of workers and of the link.
func (c *ClusterServer) listen() error {
	local, err := c.auth.publicKey(accountLocal)
	if err != nil {
		return err
	}
	up, err := c.auth.publicKey(accountUp)
	if err != nil {
		return err
	}
	system, err := c.connect(accountSystem, false)
	if err != nil {
		return err
	}
	c.workers = newPresence(c.log, func(info *server.ClientInfo) string {
		name := tokenName(info.Jwt)
		if info.Kind != kindClient || info.Account != local || checkNodeName("worker", name) != nil {
			return "" // our own connections among them
		}
		return name
	})
	c.link = newPresence(c.log, func(info *server.ClientInfo) string {
		if info.Kind != kindLeaf {
			return ""
		}
		return theRoot
	})
	c.link.listen(func(_ string, up bool) {
		if up {
			c.lines.refused.Store(false)
		}
		c.up.setUp(up)
	})
	if err := c.link.watch(system, up); err != nil {
		return err
	}
	if err := c.workers.watch(system, local); err != nil {
		return err
	}
	return c.workers.seed(c.ns)
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
	secure, err := hardenClient(u.TLS)
	if err != nil {
		return nil, err
	}
	if len(u.Addresses) == 0 || u.JWT == nil || u.Key.pair == nil {
		return nil, errors.New("addresses, token and key of the link are needed")
	}
	var urls []*url.URL
	for _, a := range u.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("address %q is not host:port: %w", a, err)
		}
		urls = append(urls, &url.URL{Scheme: "nats-leaf", Host: a, Path: fmt.Sprintf("/%d", generation)})
	}
	account, err := c.auth.publicKey(accountUp)
	if err != nil {
		return nil, err
	}
	return &server.RemoteLeafOpts{
		LocalAccount: account,
		URLs:         urls,
		// A callback, so that the seed is in no file but the caller's.
		SignatureCB: func(nonce []byte) (string, []byte, error) {
			sig, err := u.Key.sign(nonce)
			return u.JWT(), sig, err
		},
		TLS: true, TLSConfig: secure, TLSTimeout: tlsTimeout, TLSHandshakeFirst: true,
		FirstInfoTimeout:        tlsTimeout * time.Second,
		Compression:             server.CompressionOpts{Mode: server.CompressionOff},
		IgnoreDiscoveredServers: true,
	}, nil
}

// Store returns the cluster's store.
func (c *ClusterServer) Store() Store { return c.store }

// Blobs returns what the cluster keeps of large things.
func (c *ClusterServer) Blobs() Blobs { return c.blobs }

// Local returns the connection among the workers. It may use every subject.
func (c *ClusterServer) Local() Conn { return c.local }

// Up returns the connection to the root, by way of the link. Connected tells
// whether the link is up.
func (c *ClusterServer) Up() Conn { return c.up }

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
	if err := errors.Join(checkNodeName("worker", id), checkUserKey(userPublicKey)); err != nil {
		return "", fmt.Errorf("add worker: %w", err)
	}
	acc, _ := c.auth.account(accountLocal)
	if _, revoked := acc.Revoked[userPublicKey]; revoked {
		err := c.updateLocal(func(acc *accountState) { acc.admit(userPublicKey, time.Now()) })
		if err != nil {
			return "", fmt.Errorf("add worker %s: %w", id, err)
		}
	}
	return c.auth.issue(accountLocal, workerClaims(id, userPublicKey))
}

// RevokeWorker refuses all tokens that were issued so far for the key, for
// good, and cuts the connections of the worker.
func (c *ClusterServer) RevokeWorker(id, userPublicKey string) error {
	if err := errors.Join(checkNodeName("worker", id), checkUserKey(userPublicKey)); err != nil {
		return fmt.Errorf("revoke worker: %w", err)
	}
	if err := c.updateLocal(func(acc *accountState) { acc.revoke(userPublicKey, time.Now()) }); err != nil {
		return fmt.Errorf("revoke worker %s: %w", id, err)
	}
	return nil
}

// Revoked reports whether tokens for a key were revoked.
func (c *ClusterServer) Revoked(userPublicKey string) bool {
	acc, _ := c.auth.account(accountLocal)
	_, ok := acc.Revoked[userPublicKey]
	return ok
}

func (c *ClusterServer) updateLocal(change func(*accountState)) error {
	err := c.auth.update(func(s *authorityState) error {
		change(s.Accounts[accountLocal])
		return nil
	})
	if err != nil {
		return err
	}
	claims, token, err := c.auth.accountClaims(accountLocal)
	if err != nil {
		return err
	}
	return c.refresh(claims, token)
}

// OnWorker calls fn for every worker that is connected, and then whenever one
// connects or its last connection ends. fn must not block and not call the
// server.
func (c *ClusterServer) OnWorker(fn func(id string, connected bool)) { c.workers.listen(fn) }

// Close ends the store, the connections and the server, and waits for them.
func (c *ClusterServer) Close() {
	if c.blobs != nil {
		c.blobs.close()
	}
	if c.store != nil {
		c.store.close()
	}
	c.embedded.close()
}
