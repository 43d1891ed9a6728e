// Package nodeclient asks a root or a cluster for what nodes need of its HTTP interface: to
// join, to renew a certificate, to leave; and, with the own certificate, for objects, images
// and what gateways share.
package nodeclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/transport"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// CodeUnreachable says that nobody answered, now; it may be worth trying again.
const CodeUnreachable = transport.CodeUnreachable

// Object is an object and its content.
type Object = transport.Object

// Client asks with a node's own certificate. It is safe for concurrent use.
type Client struct{ conn *transport.Conn }

// New makes a client for a node that shows its own certificate, which conf has, to the
// server at addr (host:port).
func New(addr string, conf *tls.Config) (*Client, error) {
	c, err := transport.New("https://"+addr, "", conf)
	if err != nil {
		return nil, err
	}
	c.ForNode()
	return &Client{c}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.conn.Close() }

// GetObject asks for an object. have is a digest (SHA-256, hexadecimal) of which the
// content is not needed, "" for none.
func (c *Client) GetObject(ctx context.Context, namespace, name, have string) (Object, error) {
	return c.conn.GetObject(ctx, namespace, name, have)
}

// PutObject stores an object; see rest.Objects.
func (c *Client) PutObject(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	return c.conn.PutObject(ctx, in)
}

// GatewayACME asks for a gateway; see rest.Gateways.
func (c *Client) GatewayACME(ctx context.Context, q rpc.ACMERequest) (r rpc.ACMEReply, err error) {
	err = c.conn.Post(ctx, rest.GatewayACME, q, &r)
	return r, err
}

// ImageSources asks for a worker; see rest.Images.
func (c *Client) ImageSources(ctx context.Context, q rpc.ImageAsk) (r rpc.ImageSources, err error) {
	err = c.conn.Post(ctx, rest.ImageSources, q, &r)
	return r, err
}

// JoinAt sends a join request to the first of addrs (host:port) that answers.
// tlsConf pins who may answer. A server that refuses the token ends it; one
// that cannot be reached, is overloaded or is not the place for it does not.
// The errors of all addresses are joined.
func JoinAt(ctx context.Context, addrs []string, tlsConf *tls.Config, req rpc.JoinRequest) (rpc.JoinReply, error) {
	return firstOf(ctx, "join", addrs, tlsConf, func(c *transport.Conn) (rpc.JoinReply, error) {
		return transport.Call(ctx, c, rest.Join, rest.JoinIn{Body: req}, 0)
	})
}

// RenewAt sends a renewal to the first of addrs (host:port) that answers. sign
// makes the request for its challenge. A server that refuses ends it; one that
// cannot be reached, is overloaded or is not the place for it does not. The
// errors of all addresses are joined.
func RenewAt(ctx context.Context, addrs []string, tlsConf *tls.Config,
	sign func(challenge string) (rpc.RenewRequest, error)) (rpc.JoinReply, error) {
	return firstOf(ctx, "renew", addrs, tlsConf, func(c *transport.Conn) (reply rpc.JoinReply, err error) {
		req, err := signed(ctx, c, sign)
		if err != nil {
			return reply, err
		}
		return transport.Call(ctx, c, rest.Renew, rest.RenewIn{Body: req}, 0)
	})
}

// LeaveAt is RenewAt for who wants to leave.
func LeaveAt(ctx context.Context, addrs []string, tlsConf *tls.Config,
	sign func(challenge string) (rpc.LeaveRequest, error)) error {
	_, err := firstOf(ctx, "leave", addrs, tlsConf, func(c *transport.Conn) (rest.None, error) {
		req, err := signed(ctx, c, sign)
		if err != nil {
			return rest.None{}, err
		}
		return transport.Call(ctx, c, rest.Leave, rest.LeaveIn{Body: req}, 0)
	})
	return err
}

// signed is a request for the challenge of a server.
func signed[T any](ctx context.Context, c *transport.Conn, sign func(challenge string) (T, error)) (req T, err error) {
	ch, err := transport.Call(ctx, c, rest.RenewChallenge, rest.None{}, 0)
	if err != nil {
		return req, err
	}
	return sign(ch.Challenge)
}

// firstOf asks one address after another until one has answered, or refused.
func firstOf[T any](ctx context.Context, what string, addrs []string, tlsConf *tls.Config,
	ask func(*transport.Conn) (T, error)) (reply T, err error) {
	if len(addrs) == 0 {
		return reply, fmt.Errorf("%s: no address to ask", what)
	}
	var failed []error
	for _, addr := range addrs {
		c, err := transport.New("https://"+addr, "", tlsConf.Clone())
		if err == nil {
			reply, err = ask(c)
			c.Close()
		}
		if err == nil {
			return reply, nil
		}
		failed = append(failed, fmt.Errorf("%s at %s: %w", what, addr, err))
		var p *wire.Problem
		refused := errors.As(err, &p) && p.Status >= 400 && p.Status < 500 &&
			p.Status != http.StatusMisdirectedRequest && p.Status != http.StatusTooManyRequests
		if refused || ctx.Err() != nil {
			break
		}
	}
	var none T
	return none, errors.Join(failed...)
}
