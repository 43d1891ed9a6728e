package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// renewTimeout is how long a renewal may take over the link: two signatures and
// an fsync at the other end.
const renewTimeout = 15 * time.Second

// Renew asks the tier above over the link for a new certificate. Errors that it
// answers with are a *wire.Problem.
func Renew(ctx context.Context, c bus.Conn, s Subjects, req rpc.RenewRequest) (rpc.JoinReply, error) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	b, err := json.Marshal(req)
	if err != nil {
		return rpc.JoinReply{}, fmt.Errorf("encoding the renewal: %w", err)
	}
	data, err := c.Request(ctx, s.Renew, b)
	if err != nil {
		return rpc.JoinReply{}, fmt.Errorf("asking for a renewal: %w", err)
	}
	var reply rpc.RenewReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return rpc.JoinReply{}, fmt.Errorf("decoding the answer to the renewal: %w", err)
	}
	switch {
	case reply.Problem != nil:
		return rpc.JoinReply{}, reply.Problem
	case reply.Joined == nil:
		return rpc.JoinReply{}, errors.New("the answer to the renewal is empty")
	}
	return *reply.Joined, wire.CheckVersion("the answer to the renewal", reply.V)
}

// ServeRenewals answers renewals on a subject, which may hold wildcards, until
// stop is called. renew is told the peer by the subject that it used; what it
// returns that is no *wire.Problem is logged and not told.
func (u *Upper) ServeRenewals(subject string, renew func(ctx context.Context, peer string, req rpc.RenewRequest) (rpc.JoinReply, error)) (stop func(), err error) {
	d := newDispatcher(0, func(ctx context.Context, m bus.Msg) {
		reply := rpc.RenewReply{V: wire.Version}
		joined, err := u.renewal(ctx, m, renew)
		if err == nil {
			reply.Joined = &joined
		} else if !errors.As(err, &reply.Problem) {
			u.Log.Error("a renewal failed", "peer", u.Peer(m.Subject), "error", err)
			reply.Problem = wire.Problemf(500, "internal", "it is tried again by itself; the log of the tier above says more", "the certificate could not be renewed", "something failed there")
		}
		b, err := json.Marshal(reply)
		u.respond(m, b, err)
	})
	end, err := u.Conn.Subscribe(subject, func(ctx context.Context, m bus.Msg) { d.take(ctx, u.Peer(m.Subject), m) })
	if err != nil {
		return nil, fmt.Errorf("serving renewals on %s: %w", subject, err)
	}
	return func() {
		end()
		d.close()
	}, nil
}

func (u *Upper) renewal(ctx context.Context, m bus.Msg, renew func(context.Context, string, rpc.RenewRequest) (rpc.JoinReply, error)) (rpc.JoinReply, error) {
	var req rpc.RenewRequest
	err := json.Unmarshal(m.Data, &req)
	if err == nil {
		err = wire.CheckVersion("the renewal", req.V)
	}
	if err != nil {
		return rpc.JoinReply{}, wire.Problemf(400, "bad-renewal", "use the same version of verge on both sides", "the renewal cannot be read", "%v", err)
	}
	return renew(ctx, u.Peer(m.Subject), req)
}
