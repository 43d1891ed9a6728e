package rest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/wire"
)

// Renewing is the part of a Backend for nodes whose certificate may be of no use
// any more. It is open to the unauthenticated: a signature by the registered key
// is checked instead.
type Renewing interface {
	// Challenge is what the signature of the next Renew is to cover.
	Challenge(ctx context.Context) (wire.Challenge, error)
	// Renew certifies the registered key of a node again.
	Renew(ctx context.Context, r wire.RenewRequest) (wire.JoinReply, error)
	// Leave takes a worker out at its own wish, as RemoveWorker does.
	Leave(ctx context.Context, r wire.LeaveRequest) error
}

// Bounds of renewals by the unauthenticated from one address: each costs two
// signatures. After a power cut at a site that was off for a year all its workers
// come at once, and they come again.
const (
	renewalsPerSecond = 10
	renewalBurst      = 50
)

type (
	renewInput struct{ Body wire.RenewRequest }
	leaveInput struct{ Body wire.LeaveRequest }
)

func (s *Server) registerRenewing(api huma.API) {
	challenge := op("renew-challenge", http.MethodGet, "/v1/renew", "What to sign for a renewal", everybody)
	challenge.Security = []map[string][]string{}
	register(s, api, challenge, func(ctx context.Context, _ *none) (wire.Challenge, error) {
		if err := s.mayRenew(ctx); err != nil {
			return wire.Challenge{}, err
		}
		return s.backend.Challenge(ctx)
	})
	renew := op("renew", http.MethodPost, "/v1/renew", "Renew the certificate of a cluster or worker, also an expired one", everybody)
	renew.Security = []map[string][]string{} // the signature in the body is checked instead
	renew.MaxBodyBytes = maxJoinBytes
	register(s, api, renew, func(ctx context.Context, in *renewInput) (wire.JoinReply, error) {
		if err := s.mayRenew(ctx); err != nil {
			return wire.JoinReply{}, err
		}
		return s.backend.Renew(ctx, in.Body)
	})
	leave := op("leave", http.MethodPost, "/v1/leave", "Take a worker out at its own wish", joining)
	leave.Security = []map[string][]string{} // as of a renewal
	leave.MaxBodyBytes = maxJoinBytes
	register(s, api, leave, func(ctx context.Context, in *leaveInput) (none, error) {
		if err := s.mayRenew(ctx); err != nil {
			return none{}, err
		}
		return none{}, s.backend.Leave(ctx, in.Body)
	})
}

func (s *Server) mayRenew(ctx context.Context) error {
	if s.renewals.allow(PeerOf(ctx), time.Now()) {
		return nil
	}
	return wire.Problemf(http.StatusTooManyRequests, "too-many-renewals", "wait a second and try again",
		"too many renewals", "at most %d a second are answered from one address", renewalsPerSecond/2)
}

// RenewAt sends a renewal to the first of addrs (host:port) that answers. sign
// makes the request for its challenge. A server that refuses ends it; one that
// cannot be reached, is overloaded or is not the place for it does not. The
// errors of all addresses are joined.
func RenewAt(ctx context.Context, addrs []string, tlsConf *tls.Config, sign func(challenge string) (wire.RenewRequest, error)) (wire.JoinReply, error) {
	return signed(ctx, "renew", "/v1/renew", addrs, tlsConf, sign)
}

// LeaveAt is RenewAt for who wants to leave.
func LeaveAt(ctx context.Context, addrs []string, tlsConf *tls.Config, sign func(challenge string) (wire.LeaveRequest, error)) error {
	_, err := signed(ctx, "leave", "/v1/leave", addrs, tlsConf, sign)
	return err
}

func signed[T any](ctx context.Context, what, path string, addrs []string, tlsConf *tls.Config, sign func(challenge string) (T, error)) (wire.JoinReply, error) {
	return firstOf(ctx, what, addrs, tlsConf, func(c *Client) (reply wire.JoinReply, err error) {
		ch, err := get[wire.Challenge](ctx, c, call{path: "/v1/renew"})
		if err != nil {
			return reply, err
		}
		req, err := sign(ch.Challenge)
		if err != nil {
			return reply, err
		}
		body, err := json.Marshal(req)
		if err != nil {
			return reply, fmt.Errorf("encode the request: %w", err)
		}
		err = c.do(ctx, call{method: http.MethodPost, path: path, body: body, contentType: "application/json"}, &reply)
		return reply, err
	})
}

// firstOf asks one address after another until one has answered, or refused.
func firstOf(ctx context.Context, what string, addrs []string, tlsConf *tls.Config, ask func(*Client) (wire.JoinReply, error)) (wire.JoinReply, error) {
	if len(addrs) == 0 {
		return wire.JoinReply{}, fmt.Errorf("%s: no address to ask", what)
	}
	var failed []error
	for _, addr := range addrs {
		var reply wire.JoinReply
		c, err := newClient("https://"+addr, tlsConf.Clone())
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
	return wire.JoinReply{}, errors.Join(failed...)
}
