package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	dialTimeout = 10 * time.Second
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
	// TLS is asked before every attempt, so that a renewed certificate is used.
	// It must present a client certificate and name the server.
	TLS func() (*tls.Config, error)
	// JWT returns the token that the cluster issued for Key. It is asked before
	// every attempt, so that a renewed one is used.
	JWT func() string
	Key Key
	// Refused, if set, is told when the cluster was reached and did not let us in:
	// it does not know us, or a certificate has expired. It must not block.
	Refused func(error)
	// Inbox is the prefix of the subjects that answers come to; "" is the one
	// that the tokens of AddWorker allow.
	Inbox string
	Log   *slog.Logger
}

// Dial returns a worker's connection at once, connected or not, and keeps it
// connected until Close: it tries for ever, at growing intervals up to 10 s.
// ctx is only looked at before the first attempt starts.
func Dial(ctx context.Context, o DialOptions) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(o.Addresses) == 0:
		return nil, errors.New("dial: no address of the cluster given")
	case o.TLS == nil:
		return nil, errors.New("dial: no TLS configuration given: the bus is never spoken in clear")
	case o.Key.pair == nil || o.JWT == nil:
		return nil, errors.New("dial: no bus key or token given")
	}
	allow, err := tokenPermissions(o.JWT())
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
		o.Inbox = inboxPrefix + o.Name
	}
	c, err := connect(strings.Join(urls, ","), allow, false, o.Log,
		nats.Name(o.Name),
		nats.CustomInboxPrefix(o.Inbox),
		nats.SetCustomDialer(&tlsDialer{config: o.TLS}),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.CustomReconnectDelay(redialDelay),
		nats.UserJWT(func() (string, error) { return o.JWT(), nil }, o.Key.sign),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if o.Refused != nil && refused(err) {
				o.Refused(err)
			}
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", strings.Join(o.Addresses, ", "), err)
	}
	return c, nil
}

// refused tells that a server did not let us in from that it was not reached.
func refused(err error) bool {
	for _, e := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, e) {
			return true
		}
	}
	// crypto/tls does not export the type of an alert.
	return err != nil && strings.Contains(err.Error(), "remote error: tls:")
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
	config func() (*tls.Config, error)
}

// Dial implements the client's CustomDialer.
func (d *tlsDialer) Dial(network, address string) (net.Conn, error) {
	config, err := d.config()
	if err != nil {
		return nil, fmt.Errorf("TLS configuration: %w", err)
	}
	config, err = hardenClient(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	// No TCP keep-alive: the heartbeats do that, and packets cost power and money
	// on some links.
	plain, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, address)
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
	return secure, nil
}

// SkipTLSHandshake tells the client that the connection is secure already.
func (d *tlsDialer) SkipTLSHandshake() bool { return true }
