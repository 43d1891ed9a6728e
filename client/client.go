// Package client is the Go client of Verge: it asks a root or a cluster for everything that
// the command line can do.
//
// A Context says where it is and by what right to use it. It is read from the file that a
// root or cluster writes for its administrator, or made from an address and a token:
//
//	c, err := client.New(client.Context{Server: "https://root.example:8470", CA: pem, Token: token})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	apps, err := c.Applications.List(ctx)
//
// Operations are in groups, one for each kind of thing: Applications, Services, Instances,
// Workers and so on. Which of them a root or a cluster serves differs; one that does not serve
// an operation answers with a Problem of status 421 that says who does.
//
// Errors are, or wrap, a *Problem wherever the server has answered or could not be asked:
//
//	var p *client.Problem
//	if errors.As(err, &p) && p.Code == "no-such-application" { … }
//
// Watch tells how everything is and every change from then on; Instances.FollowLogs and
// Events.Follow go on until they are stopped. A Client is safe for concurrent use.
package client

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/transport"
)

// Client asks a root or a cluster. It is safe for concurrent use.
type Client struct {
	Applications Applications
	Services     Services
	Rollouts     Rollouts
	Jobs         Jobs
	Profiles     Profiles
	Instances    Instances
	Exec         Exec
	Events       Events
	Clusters     Clusters
	Workers      Workers
	Volumes      Volumes
	Namespaces   Namespaces
	Secrets      Secrets
	Hooks        Hooks
	Objects      Objects
	Users        Users
	Tokens       Tokens
	Plugins      Plugins
	Upgrades     Upgrades
	Metrics      Metrics
	LocalChanges LocalChanges
	System       System

	conn *transport.Conn
}

// group is what all groups of operations are.
type group struct{ conn *transport.Conn }

// New makes a client of a context. Nothing is sent yet.
func New(e Context, options ...Option) (*Client, error) {
	conf, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	conn, err := transport.New(e.Server, e.Token, conf)
	if err != nil {
		return nil, err
	}
	for _, set := range options {
		set(conn)
	}
	g := group{conn}
	return &Client{
		conn: conn, Applications: Applications{g}, Services: Services{g}, Rollouts: Rollouts{g}, Jobs: Jobs{g}, Profiles: Profiles{g},
		Instances: Instances{g}, Exec: Exec{g}, Events: Events{g}, Clusters: Clusters{g}, Workers: Workers{g}, Volumes: Volumes{g},
		Namespaces: Namespaces{g}, Secrets: Secrets{g}, Hooks: Hooks{g}, Objects: Objects{g}, Users: Users{g}, Tokens: Tokens{g},
		Plugins: Plugins{g}, Upgrades: Upgrades{g}, Metrics: Metrics{g}, LocalChanges: LocalChanges{g}, System: System{g},
	}, nil
}

// Option changes how a Client works.
type Option func(*transport.Conn)

// WithNotice has tell called with what the server has to say beside an answer: that the
// context will stop working, for example. Calls may come at the same time.
func WithNotice(tell func(text string)) Option {
	return func(c *transport.Conn) { c.Notice = tell }
}

// WithDialer has connections opened by dial: from a network that is not this process's, for
// example.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *transport.Conn) { c.DialBy(dial) }
}

// WithTLS has conf say whom to trust and who asks, instead of the certificates of the context.
func WithTLS(conf *tls.Config) Option { return func(c *transport.Conn) { c.SetTLS(conf) } }

// WithLocalChanges makes the changes that are asked for of a cluster ones of its site alone,
// whether or not its root is connected.
func WithLocalChanges() Option { return func(c *transport.Conn) { c.Local = true } }

// Host is the host:port that the client talks to.
func (c *Client) Host() string { return c.conn.Host() }

// Close drops idle connections.
func (c *Client) Close() { c.conn.Close() }

// MaxWait is the longest that a question may wait for something new.
const MaxWait = 30 * time.Second

func call[In, Out any](ctx context.Context, g group, e rest.Endpoint[In, Out], in In) (Out, error) {
	return transport.Call(ctx, g.conn, e, in, 0)
}

func callList[In, T any](ctx context.Context, g group, e rest.Endpoint[In, rest.Items[T]], in In) ([]T, error) {
	l, err := call(ctx, g, e, in)
	return l.Items, err
}

func callNone[In any](ctx context.Context, g group, e rest.Endpoint[In, rest.None], in In) error {
	_, err := call(ctx, g, e, in)
	return err
}

// waitText is a time to wait in a request; "" is none.
func waitText(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return wait.String()
}
