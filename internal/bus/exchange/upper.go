package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Upper is the upper side of the exchange with the peers behind one connection.
type Upper struct {
	Conn bus.Conn
	// Peer names the peer by the subject that it used. The bus lets a peer
	// publish only on its own subjects, so this is its identity.
	Peer func(subject string) string
	// OnReport takes over a report. Calls are sequential per peer.
	OnReport func(ctx context.Context, peer string, r wire.Report) wire.ReportReply
	// TryReport, if set, is OnReport for a report without status, uses and changes, where
	// that needs no waiting; ok is false where it would, and OnReport is called. It saves
	// a heartbeat the way through another goroutine. Calls for a peer never overlap with
	// those of OnReport for the same one.
	TryReport func(peer string, r wire.Report) (reply wire.ReportReply, ok bool)
	// Nudge, if set, asks a peer for a report that is answered. It is called where one that
	// wants no answer would have got one that says something.
	Nudge func(peer string)
	// Desired of a peer; ok is false for one that is not known here.
	Desired func(peer string) (d Desired, ok bool)
	Log     *slog.Logger

	packs packs
}

// Serve answers reports and fetches until stop is called. The subjects may hold
// wildcards.
func (u *Upper) Serve(report, fetch string) (stop func(), err error) {
	reports := newDispatcher(keepFor(report), func(ctx context.Context, m bus.Msg) {
		reply := wire.ReportReply{V: wire.Version}
		if r, err := decodeReport(m.Data); err != nil {
			reply.Refused = "not a report: " + err.Error()
		} else if err := wire.CheckVersion("the report", r.V); err != nil {
			reply.Refused = err.Error()
		} else {
			reply = u.OnReport(ctx, u.Peer(m.Subject), r)
			if m.OneWay {
				u.tell(u.Peer(m.Subject), r, reply)
				return
			}
		}
		u.reply(m, reply)
	})
	stopReport, err := u.Conn.Subscribe(report, func(ctx context.Context, m bus.Msg) {
		if peer := u.Peer(m.Subject); reports.busy(peer) || !u.try(peer, m) {
			reports.take(ctx, peer, m)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("serving reports on %s: %w", report, err)
	}
	fetches := newDispatcher(keepFor(fetch), func(ctx context.Context, m bus.Msg) {
		var f wire.Fetch
		if err := json.Unmarshal(m.Data, &f); err != nil {
			u.Log.Warn("not a fetch", "subject", m.Subject, "error", err)
			return
		}
		d, ok := u.Desired(u.Peer(m.Subject))
		if !ok {
			u.Log.Warn("fetch of an unknown peer", "subject", m.Subject)
			return
		}
		d.packs = &u.packs
		reply, err := d.Fetch(ctx, f)
		if err != nil {
			u.Log.Error("serving desired state", "subject", m.Subject, "error", err)
			return // the peer's request times out and is made again
		}
		b, err := json.Marshal(reply)
		u.respond(m, b, err)
	})
	stopFetch, err := u.Conn.Subscribe(fetch, func(ctx context.Context, m bus.Msg) {
		fetches.take(ctx, u.Peer(m.Subject), m)
	})
	if err != nil {
		stopReport()
		reports.close()
		return nil, fmt.Errorf("serving desired state on %s: %w", fetch, err)
	}
	return func() {
		stopReport()
		stopFetch()
		reports.close()
		fetches.close()
	}, nil
}

// try answers a report without waiting for anything, if that can be.
func (u *Upper) try(peer string, m bus.Msg) bool {
	if u.TryReport == nil {
		return false
	}
	r, plain := plainReport(m.Data)
	if !plain || r.V != wire.Version {
		return false
	}
	reply, ok := u.TryReport(peer, r)
	switch {
	case !ok:
	case m.OneWay:
		u.tell(peer, r, reply)
	default:
		u.reply(m, reply)
	}
	return ok
}

// tell lets the sender of a one-way report ask for the reply, where that says something.
func (u *Upper) tell(peer string, r wire.Report, reply wire.ReportReply) {
	news := reply.Refused != "" || reply.Want != r.Have || reply.NeedStatus || reply.Interval > 0 || reply.Renew || reply.Ack != r.To
	if news && u.Nudge != nil {
		u.Nudge(peer)
	}
}

func (u *Upper) reply(m bus.Msg, reply wire.ReportReply) {
	b, err := encodeReply(reply)
	u.respond(m, b, err)
}

// respond sends a reply, or says what kept it from being encoded.
func (u *Upper) respond(m bus.Msg, b []byte, err error) {
	if err == nil {
		err = m.Respond(b)
	}
	if err != nil {
		u.Log.Debug("replying", "subject", m.Subject, "error", err)
	}
}

// Nudge asks a peer for a report now. It may be lost.
func Nudge(c bus.Conn, s Subjects) error {
	b, err := json.Marshal(wire.Down{V: wire.Version, Nudge: true})
	if err != nil {
		return err
	}
	return c.Publish(s.Nudge, b)
}

// AskPeer puts a question to a peer and decodes its answer into out. What the
// peer refuses with a *wire.Problem is one here, too.
func AskPeer(ctx context.Context, c bus.Conn, s Subjects, q rpc.Ask, out any) error {
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	data, err := c.Request(ctx, s.Ask, b)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", q.What, err)
	}
	var a rpc.Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return fmt.Errorf("decoding the answer to %s: %w", q.What, err)
	}
	if a.Problem != nil {
		return checked(a.Problem)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	if err := json.Unmarshal(a.Data, out); err != nil {
		return fmt.Errorf("decoding the answer to %s: %w", q.What, err)
	}
	return nil
}

// maxProblemText bounds each text of a peer's problem.
const maxProblemText = 4 << 10

// checked is a problem of a peer without anything that a problem cannot be.
func checked(p *wire.Problem) *wire.Problem {
	out := *p
	if out.Status < 400 || out.Status > 599 {
		out.Status = 502
	}
	for _, s := range []*string{&out.Code, &out.Title, &out.Detail, &out.Remedy} {
		if len(*s) > maxProblemText {
			*s = strings.ToValidUTF8((*s)[:maxProblemText], "") + "…"
		}
	}
	return &out
}
