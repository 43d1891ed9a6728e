package busserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/nats-io/jwt/v2"
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

// RootOptions say how a root's server runs. All fields are required.
type RootOptions struct {
	// Dir is for this server alone: the log and the keys.
	Dir string
	// Listen is the address of the link port for clusters, host:port; an empty
	// host means all addresses, port 0 any free one.
	Listen string
	// TLS of the link port: certificate, and ClientCAs for those of clusters.
	// TLS 1.3 and a client certificate are demanded whatever it says.
	TLS *tls.Config
	// Peer names the cluster that a certificate belongs to. Its token must name the same.
	Peer Peer
	Log  *slog.Logger
}

// RootServer is the bus of a root. Only its link port is open to the network.
type RootServer struct {
	*embedded
	store *logstore.Store
	blobs *blobstore.Store
	links *presence.Presence
	addr  string

	mu    sync.Mutex               // taken after presence.mu
	conns map[string]*busconn.Conn // guarded by mu; by cluster
}

// StartRoot starts the server of a root and opens its store; ctx bounds the
// start only. Only one process can have Dir.
func StartRoot(ctx context.Context, o RootOptions) (*RootServer, error) {
	secure, err := tlsconf.MutualServer(o.TLS)
	if err == nil && o.Peer == nil {
		err = errors.New("no Peer: nothing says whom a certificate names")
	}
	if err != nil {
		return nil, fmt.Errorf("link port of the root: %w", err)
	}
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("link port of the root: %w", err)
	}
	if _, err := checkFree(o.Listen); err != nil {
		return nil, fmt.Errorf("link port of the root: %w", err)
	}
	opts, gate := baseOptions("verge-root", "root", o.Dir), handshakes.New(handshakes.Short)
	opts.LeafNode = server.LeafNodeOpts{
		Host: host, Port: port, NoAdvertise: true,
		TLSConfig: gate.Guard(secure), TLSTimeout: tlsTimeout, TLSHandshakeFirst: true,
		AuthTimeout: tlsTimeout + 2,
		// A compressor has megabytes of buffers per link; messages are small.
		Compression: server.CompressionOpts{Mode: server.CompressionOff},
	}
	e, err := start(ctx, o.Dir, opts, o.Peer, o.Log, credentials.AccountSystem, credentials.AccountStore)
	if err != nil {
		return nil, fmt.Errorf("start root: %w", err)
	}
	// The server has written the port that it got into the options.
	addr := net.JoinHostPort(host, strconv.Itoa(opts.LeafNode.Port))
	r := &RootServer{embedded: e, addr: addr, conns: map[string]*busconn.Conn{}}
	if err := r.open(ctx, o); err != nil {
		r.Close()
		return nil, fmt.Errorf("start root: %w", err)
	}
	gate.Open()
	return r, nil
}

func (r *RootServer) open(ctx context.Context, o RootOptions) error {
	r.links = presence.New(o.Log, func(c *server.ClientInfo) string {
		if c.Kind != kindLeaf {
			return ""
		}
		return credentials.TokenName(c.Jwt)
	})
	system, err := r.connect(credentials.AccountSystem, false)
	if err != nil {
		return err
	}
	if err := r.links.Watch(system, "*"); err != nil {
		return err
	}
	if err := r.seedLinks(); err != nil {
		return err
	}
	r.links.Listen(r.setLink)
	c, err := r.connect(credentials.AccountStore, false)
	if err != nil {
		return err
	}
	if r.store, err = logstore.Open(ctx, c.NC(), o.Dir, o.Log); err != nil {
		return err
	}
	r.blobs, err = blobstore.Open(ctx, c.NC(), o.Dir, o.Log, r.dialStore)
	return err
}

// seedLinks adds the links that came up before the events were listened to.
func (r *RootServer) seedLinks() error {
	leafs, err := r.ns.Leafz(nil)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	byAccount := map[string]string{}
	for _, cluster := range r.Clusters() {
		pub, err := r.auth.PublicKey(credentials.ClusterAccount(cluster))
		if err != nil {
			return err
		}
		byAccount[pub] = cluster
	}
	for _, l := range leafs.Leafs {
		r.links.Set(byAccount[l.Account], l.ID, true)
	}
	return nil
}

// setLink tells the connection to a cluster that its link came or went.
func (r *RootServer) setLink(cluster string, up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.conns[cluster]; c != nil {
		c.SetUp(up)
	}
}

// Store returns the root's store.
func (r *RootServer) Store() bus.Store { return r.store }

// Blobs returns what the root keeps of large things.
func (r *RootServer) Blobs() bus.Blobs { return r.blobs }

// Addr is the address of the link port.
func (r *RootServer) Addr() string { return r.addr }

// AddCluster makes the account of a cluster unless it is there, and returns the
// token with which the holder of the user key can open the link to it. Calling
// it again gives a new token; another key replaces the one before, whose link is
// cut: a cluster has one identity.
func (r *RootServer) AddCluster(name, userPublicKey string) (userJWT string, err error) {
	if err := errors.Join(credentials.CheckNodeName("cluster", name), credentials.CheckUserKey(userPublicKey)); err != nil {
		return "", fmt.Errorf("add cluster: %w", err)
	}
	account := credentials.ClusterAccount(name)
	if err := r.auth.Own(account, userPublicKey); err != nil {
		return "", fmt.Errorf("add cluster %s: %w", name, err)
	}
	claims, token, err := r.auth.AccountClaims(account)
	if err != nil {
		return "", fmt.Errorf("add cluster %s: %w", name, err)
	}
	if err := r.refresh(claims, token); err != nil {
		return "", fmt.Errorf("add cluster %s: %w", name, err)
	}
	return r.auth.LinkToken(name, userPublicKey)
}

// ClusterToken is another token for a cluster that is there, for the user key
// that it has.
func (r *RootServer) ClusterToken(name, userPublicKey string) (userJWT string, err error) {
	if !r.auth.Owns(credentials.ClusterAccount(name), userPublicKey) {
		return "", fmt.Errorf("token for cluster %s: its key: %w", name, bus.ErrNotFound)
	}
	return r.auth.LinkToken(name, userPublicKey)
}

// RevokeCluster refuses all tokens that a cluster was given so far and cuts its
// link. Its account stays: AddCluster with another key lets it in again.
func (r *RootServer) RevokeCluster(name string) error {
	account := credentials.ClusterAccount(name)
	err := r.auth.Disown(account)
	var claims *jwt.AccountClaims
	var token string
	if err == nil {
		claims, token, err = r.auth.AccountClaims(account)
	}
	if err == nil {
		err = r.refresh(claims, token)
	}
	if err != nil {
		return fmt.Errorf("revoke cluster %s: %w", name, err)
	}
	for _, id := range r.links.IDs(name) {
		// It may have ended by itself meanwhile.
		_ = r.ns.DisconnectClientByID(id)
	}
	return nil
}

// RemoveCluster forgets a cluster: its tokens are refused for good and its link
// is cut. Removing one that is not there is not an error.
func (r *RootServer) RemoveCluster(name string) error {
	account := credentials.ClusterAccount(name)
	if !r.auth.Has(account) {
		return nil
	}
	claims, token, err := r.auth.ClosedAccountClaims(account)
	if err != nil {
		return fmt.Errorf("remove cluster %s: %w", name, err)
	}
	if err := r.auth.Remove(account); err != nil {
		return fmt.Errorf("remove cluster %s: %w", name, err)
	}
	r.mu.Lock()
	c := r.conns[name]
	delete(r.conns, name)
	r.mu.Unlock()
	if c != nil {
		r.release(c)
	}
	if err := r.refresh(claims, token); err != nil {
		return fmt.Errorf("remove cluster %s: %w", name, err)
	}
	for _, id := range r.links.IDs(name) {
		// It may have ended by itself meanwhile.
		_ = r.ns.DisconnectClientByID(id)
	}
	return nil
}

// Cluster returns the connection into the account of a cluster; the cluster's
// Up connection is in the same account, by way of the link. Connected tells
// whether the link is up. It belongs to the server and is closed with it.
func (r *RootServer) Cluster(name string) (bus.Conn, error) {
	account := credentials.ClusterAccount(name)
	if !r.auth.Has(account) {
		return nil, fmt.Errorf("cluster %s: %w", name, bus.ErrNotFound)
	}
	r.mu.Lock()
	have := r.conns[name]
	r.mu.Unlock()
	if have != nil {
		return have, nil
	}
	made, err := r.connect(account, true)
	if err != nil {
		return nil, err
	}
	r.links.With(name, func(up bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if have = r.conns[name]; have == nil {
			made.SetUp(up)
			r.conns[name] = made
		}
	})
	if have != nil { // someone else was faster
		r.release(made)
		return have, nil
	}
	return made, nil
}

// Clusters returns the names of all clusters, sorted.
func (r *RootServer) Clusters() []string { return r.auth.Clusters() }

// OnLink calls fn for every cluster whose link is up, and then whenever one
// comes up or goes down. fn must not block and not call the server.
func (r *RootServer) OnLink(fn func(cluster string, up bool)) { r.links.Listen(fn) }

// Close ends the store, the connections and the server, and waits for them.
func (r *RootServer) Close() {
	if r.blobs != nil {
		r.blobs.Close()
	}
	if r.store != nil {
		r.store.Close()
	}
	r.embedded.close()
}
