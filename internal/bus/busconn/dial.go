package busconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/tlsconf"
)

const (
	// DialTimeout bounds each part of an attempt but TLS: until somebody answers, and until the
	// bus server has greeted us.
	DialTimeout = 10 * time.Second
	// TLSTimeout bounds the handshake. A cluster that has started again works on so many at a
	// time, and the others wait for their turn.
	TLSTimeout = 30 * time.Second
	// The delay between attempts doubles from minRedial to maxRedial, and each is
	// between half and all of that, so that workers do not come back in step.
	minRedial = 250 * time.Millisecond
	maxRedial = 10 * time.Second
)

// DialOptions say how a worker reaches its cluster. All fields are required but
// Inbox.
type DialOptions struct {
	// Name of the worker, as in its token.
	Name string
	// Addresses of the cluster, host:port; tried in turn.
	Addresses []string
	// Also, if set, is asked for more addresses when one of those does not answer:
	// the cluster may have moved meanwhile.
	Also func() []string
	// TLS is asked before every attempt, so that a renewed certificate is used.
	// It must present a client certificate and name the server.
	TLS func() (*tls.Config, error)
	// JWT returns the token that the cluster issued for Key. It is asked before
	// every attempt, so that a renewed one is used.
	JWT func() string
	Key credentials.Key
	// Refused, if set, is told when the cluster was reached and did not let us in:
	// it does not know us, or a certificate has expired. It must not block.
	Refused func(error)
	// Inbox is the prefix of the subjects that answers come to; "" is the one
	// that the tokens of AddWorker allow.
	Inbox string
	Log   *slog.Logger
}

// Dial returns a worker's connection after one attempt, connected or not, and keeps it
// connected until Close: it tries for ever, at growing intervals up to 10 s. It is for
// who sends heartbeats: nothing else finds out soon that the other end is dead.
// ctx is only looked at before the first attempt starts.
func Dial(ctx context.Context, o DialOptions) (bus.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(o.Addresses) == 0:
		return nil, errors.New("dial: no address of the cluster given")
	case o.TLS == nil:
		return nil, errors.New("dial: no TLS configuration given: the bus is never spoken in clear")
	case o.Key.IsZero() || o.JWT == nil:
		return nil, errors.New("dial: no bus key or token given")
	}
	allow, err := credentials.TokenPermissions(o.JWT())
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	urls := make([]string, len(o.Addresses))
	for i, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, fmt.Errorf("dial: address %q is not host:port: %w", a, err)
		}
		urls[i] = "nats://" + a
	}
	if o.Inbox == "" {
		o.Inbox = credentials.InboxPrefix + o.Name
	}
	out := &outbox{}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c, err := connect(strings.Join(urls, ","), allow, false, o.Log,
		nats.Name(o.Name),
		nats.CustomInboxPrefix(o.Inbox),
		nats.PingInterval(dialedPing),
		nats.SetCustomDialer(&tlsDialer{life: life, config: o.TLS, refused: o.Refused, known: o.Addresses, also: o.Also, out: out}),
		nats.Timeout(DialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.CustomReconnectDelay(redialDelay),
		nats.UserJWT(func() (string, error) { return o.JWT(), nil }, o.Key.Sign),
	)
	if err != nil {
		end()
		return nil, fmt.Errorf("dial %s: %w", strings.Join(o.Addresses, ", "), err)
	}
	c.out, c.stop = out, end
	return c, nil
}

// redialDelay is the pause after the given number of rounds over all addresses.
func redialDelay(rounds int) time.Duration {
	d := maxRedial
	if rounds < 6 { // minRedial<<6 is beyond maxRedial
		d = min(maxRedial, minRedial<<max(rounds, 0))
	}
	return d/2 + rand.N(d/2+1)
}

// tlsDialer opens a TLS connection before a byte of the bus protocol is said,
// with the configuration of the moment.
type tlsDialer struct {
	life    context.Context // until Close, which waits for an attempt that is under way
	later   bool            // an attempt was made
	config  func() (*tls.Config, error)
	refused func(error) // nil: nobody wants to know
	known   []string    // addresses that the client tries by itself
	also    func() []string
	out     *outbox // is told of each socket
}

// Dial implements the client's CustomDialer.
func (d *tlsDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.dial(network, address)
	if err == nil || d.also == nil {
		return conn, err
	}
	for _, other := range d.also() {
		if slices.Contains(d.known, other) {
			continue
		}
		conn, otherErr := d.dial(network, other)
		if otherErr == nil {
			return conn, nil
		}
		err = errors.Join(err, otherErr)
	}
	return nil, err
}

func (d *tlsDialer) dial(network, address string) (net.Conn, error) {
	config, err := d.config()
	if err != nil {
		return nil, fmt.Errorf("TLS configuration: %w", err)
	}
	config, err = tlsconf.Client(config)
	if err != nil {
		return nil, err
	}
	// Whoever starts waits for the first attempt.
	patience := DialTimeout
	if d.later {
		patience = TLSTimeout
	}
	d.later = true
	ctx, cancel := context.WithTimeout(d.life, patience)
	defer cancel()
	// No TCP keep-alive: the heartbeats do that, and packets cost power and money
	// on some links.
	plain, err := (&net.Dialer{Timeout: DialTimeout, KeepAlive: -1, Control: urgent}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(err, plain.Close())
		}
		config.ServerName = host
	}
	secure := tls.Client(plain, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, err), plain.Close())
	}
	if socket, ok := plain.(*net.TCPConn); ok {
		d.out.socket.Store(socket)
	}
	if d.refused == nil {
		return secure, nil
	}
	return &watchedConn{Conn: secure, refused: d.refused}, nil
}

// watchedConn tells when the other side does not let us in, which the client does
// not: in TLS 1.3 it is heard at the first read that a certificate was refused,
// and what is wrong with a token is in the server's last words.
type watchedConn struct {
	net.Conn
	refused func(error)
}

// lastWords are how a server begins to say what is wrong.
const lastWords = "-ERR '"

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	// crypto/tls does not export the type of an alert.
	case err != nil && strings.Contains(err.Error(), "remote error: tls:"):
		c.refused(err)
	case n > len(lastWords) && string(p[:len(lastWords)]) == lastWords:
		text, _, _ := strings.Cut(string(p[len(lastWords):n]), "'")
		// One that had no time to look at the token refuses nobody: to renew a
		// certificate for that would be more work for who is too busy.
		lower := strings.ToLower(text)
		if (strings.Contains(lower, "authorization") || strings.Contains(lower, "authentication")) && !strings.Contains(lower, "timeout") {
			c.refused(errors.New(text))
		}
	}
	return n, err
}

// SkipTLSHandshake tells the client that the connection is secure already.
func (d *tlsDialer) SkipTLSHandshake() bool { return true }
