package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// AskGate asks the hooks of the tier above before something is done here. warnings are those
// that did not answer and are not needed. What those that are needed say against it is a
// *wire.Problem; all other errors mean that the tier above did not answer.
func AskGate(ctx context.Context, c bus.Conn, s Subjects, d wire.HookData) (warnings []string, err error) {
	b, err := json.Marshal(rpc.GateQuestion{V: wire.Version, Data: d})
	if err != nil {
		return nil, fmt.Errorf("encoding a question for hooks: %w", err)
	}
	data, err := c.Request(ctx, s.Gate, b)
	if err != nil {
		return nil, fmt.Errorf("asking for the word of hooks: %w", err)
	}
	var reply rpc.GateReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, fmt.Errorf("decoding the word of hooks: %w", err)
	}
	if reply.Problem != nil {
		return nil, checked(reply.Problem)
	}
	return reply.Warnings, wire.CheckVersion("the word of hooks", reply.V)
}

// ServeGates answers what peers ask with AskGate on a subject, until stop is called. ask is
// told the peer by the subject that it used; what it returns that is no *wire.Problem is
// logged and not told. A peer asks one question at a time.
func (u *Upper) ServeGates(subject string, ask func(ctx context.Context, peer string, d wire.HookData) (warnings []string, err error)) (stop func(), err error) {
	d := newDispatcher(0, func(ctx context.Context, m bus.Msg) {
		reply := rpc.GateReply{V: wire.Version}
		var q rpc.GateQuestion
		err := json.Unmarshal(m.Data, &q)
		if err == nil {
			err = wire.CheckVersion("the question", q.V)
		}
		if err != nil {
			err = wire.Problemf(400, "bad-question", "use the same version of verge on both sides", "the question cannot be read", "%v", err)
		} else {
			reply.Warnings, err = ask(ctx, u.Peer(m.Subject), q.Data)
		}
		if err != nil && !errors.As(err, &reply.Problem) {
			u.Log.Error("a question for hooks failed", "peer", u.Peer(m.Subject), "error", err)
			reply.Problem = wire.Problemf(500, "internal", "it is asked again by itself; the log of the tier above says more", "hooks could not be asked", "something failed there")
		}
		b, err := json.Marshal(reply)
		u.respond(m, b, err)
	})
	end, err := u.Conn.Subscribe(subject, func(ctx context.Context, m bus.Msg) { d.take(ctx, u.Peer(m.Subject), m) })
	if err != nil {
		return nil, fmt.Errorf("serving questions for hooks on %s: %w", subject, err)
	}
	return func() {
		end()
		d.close()
	}, nil
}
