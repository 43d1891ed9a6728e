package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// askTimeout bounds one request, with the wait for the other worker.
	askTimeout = 15 * time.Second
	// dialTimeout is when an address counts as one where nobody is: there may be another
	// relay.
	dialTimeout = 4 * time.Second
)

// ErrRefused is wrapped where a relay answered that it will not.
var ErrRefused = errors.New("refused by the relay")

// Client makes a worker's requests of a relay.
type Client struct {
	// Relay to ask.
	Relay wire.Relay
	// ServerName is the name in the relay's certificate.
	ServerName string
	// TLS is the worker's identity for both directions, as for the data port.
	TLS func() (*tls.Config, error)
	// Lease, Key and Inner of the worker: see request.
	Lease wire.SignedLease
	Key   string
	Inner netip.Addr
}

// Mail makes the worker known and returns what there is for it.
func (c *Client) Mail(ctx context.Context) (Answer, netip.Addr, error) {
	return c.ask(ctx, request{Op: opMail})
}

// To is the other worker of a request: its name, which may be another one in its own
// cluster than elsewhere, and the number of its lease, which is the same everywhere; 0
// is not known.
type To struct {
	Cluster, Worker string
	Number          uint32
}

func (t To) request(op string) request {
	return request{Op: op, Cluster: t.Cluster, Worker: t.Worker, Number: t.Number}
}

// Channel returns the port of the relay that leads to another worker, and its
// address. It is open until Pause, and the same if asked for again.
func (c *Client) Channel(ctx context.Context, to To) (netip.AddrPort, error) {
	a, at, err := c.ask(ctx, to.request(opChannel))
	return netip.AddrPortFrom(at, a.Channel), err
}

// Pause stops the channel to another worker until somebody asks for it again.
func (c *Client) Pause(ctx context.Context, to To) error {
	_, _, err := c.ask(ctx, to.request(opPause))
	return err
}

// Pipe is a stream to another worker, which has taken it. The relay sees what is
// sent over it: both ends do their own handshake first.
func (c *Client) Pipe(ctx context.Context, to To) (net.Conn, error) {
	conn, _, err := c.open(ctx, to.request(opPipe))
	return conn, err
}

// Take is the other end of a pipe that Mail has told of.
func (c *Client) Take(ctx context.Context, pipe string) (net.Conn, error) {
	conn, _, err := c.open(ctx, request{Op: opTake, Pipe: pipe})
	return conn, err
}

func (c *Client) ask(ctx context.Context, r request) (Answer, netip.Addr, error) {
	conn, a, err := c.open(ctx, r)
	if err != nil {
		return Answer{}, netip.Addr{}, err
	}
	defer func() { _ = conn.Close() }()
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return Answer{}, netip.Addr{}, fmt.Errorf("address of relay %s: %w", c.Relay.Name, err)
	}
	return a, at.Addr().Unmap(), nil
}

// open makes a request and returns the connection that it was made on.
func (c *Client) open(ctx context.Context, r request) (net.Conn, Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r.V, r.Lease, r.Key, r.Inner = version, c.Lease, c.Key, c.Inner
	given, err := c.TLS()
	if err != nil {
		return nil, Answer{}, fmt.Errorf("own identity: %w", err)
	}
	cfg := given.Clone()
	cfg.ServerName, cfg.NextProtos, cfg.GetConfigForClient = c.ServerName, []string{alpn}, nil
	errs := []error{}
	for _, addr := range c.Relay.Addresses {
		conn, err := DialRacing(ctx, func(ctx context.Context) (*tls.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			raw, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(raw, cfg)
			if err := conn.HandshakeContext(ctx); err != nil {
				_ = raw.Close() // nothing was said on it
				return nil, fmt.Errorf("%s: handshake: %w", addr, err)
			}
			return conn, nil
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var a Answer
		if err := exchange(ctx, conn, r, &a); err != nil {
			_ = conn.NetConn().Close() // as said in the error
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		if a.Error != "" {
			_ = conn.Close()
			return nil, a, fmt.Errorf("relay %s: %w: %.200q", c.Relay.Name, ErrRefused, a.Error)
		}
		return conn, a, nil
	}
	return nil, Answer{}, fmt.Errorf("relay %s does not answer: %w", c.Relay.Name, errors.Join(errs...))
}

func exchange(ctx context.Context, conn *tls.Conn, r request, a *Answer) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := writeMessage(conn, r); err != nil {
		return err
	}
	return readMessage(conn, a)
}
