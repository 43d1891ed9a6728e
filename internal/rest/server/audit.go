package server

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Every change, and every exec and use of a token, is written to the audit log
// before it is acknowledged; what opens a session of its own before it begins. A
// refusal is written too, but not every one of many: who asks in a loop must not
// wear out a disk, nor push what others did out of the log.

const (
	refusalBurst         = 10
	refusalsPerSecond    = 1.0 / 30
	allRefusalBurst      = 60
	allRefusalsPerSecond = 1.0 / 5
)

// peerKey finds the address of who sent a request in its context.
type peerKey struct{}

// PeerOf is the address (without port) that the request of ctx came from; "" if
// there is none.
func PeerOf(ctx context.Context) string {
	addr, _ := ctx.Value(peerKey{}).(string)
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// withPeer is the context of a request with where it comes from.
func withPeer(r *http.Request) context.Context {
	return context.WithValue(r.Context(), peerKey{}, r.RemoteAddr)
}

// entry describes what was asked for.
func (s *Server) entry(ctx context.Context, n declared, q rest.Question, out any) wire.AuditEntry {
	e := wire.AuditEntry{Who: access.From(ctx).Name, From: PeerOf(ctx), What: n.id, Result: "ok"}
	if in, ok := q.In.(rest.Subjecter); ok {
		e.On, e.Detail = in.Subject()
		return e
	}
	if r, ok := out.(wire.ApplyResult); ok && r.Name != "" {
		e.On, e.Detail = string(access.Application)+"/"+r.Name, r.Change
		return e
	}
	if n.needs.Finder != nil {
		if o, err := n.needs.Finder.Find(s.site, q); (err == nil || o.Name != "") && o.Kind != access.System {
			e.On = o.String()
		}
	}
	return e
}

// record writes what was done, or refused with err, to the audit log. What could
// not be written is an error, whatever became of the rest.
func (s *Server) record(ctx context.Context, n declared, q rest.Question, out any, err error) error {
	if in, ok := q.In.(rest.Rehearsed); ok && in.Rehearsal() {
		return err
	}
	if err != nil {
		e, p := s.entry(ctx, n, q, nil), rest.ProblemOf(err)
		if p.Code == wire.CodeHookRefused || p.Code == wire.CodeHookSilent {
			e.Detail = p.Detail // who has decided it, and why
		}
		s.refused(ctx, e, p.Code)
		return err
	}
	// It was done: that its client has gone away must not keep it out of the log.
	if rerr := s.backend.Record(context.WithoutCancel(ctx), s.entry(ctx, n, q, out)); rerr != nil {
		s.log.Error("the audit log cannot be written", "operation", n.id, "err", rerr)
		return wire.Problemf(http.StatusInsufficientStorage, "not-recorded", "see whether it was done before you try again, and repair the disk of this role",
			"it was done, but could not be written to the audit log", "%v", rerr)
	}
	return nil
}

// begin writes what is about to begin, and goes on by itself, to the audit log.
func (s *Server) begin(ctx context.Context, n declared, q rest.Question) error {
	e := s.entry(ctx, n, q, nil)
	e.Result = "begun"
	if err := s.backend.Record(ctx, e); err != nil {
		return wire.Problemf(http.StatusInsufficientStorage, "not-recorded", "repair the disk of this role, then try again",
			"nothing was done: it could not be written to the audit log", "%v", err)
	}
	return nil
}

// refused writes a refusal to the audit log, unless there are too many.
func (s *Server) refused(ctx context.Context, e wire.AuditEntry, code string) {
	now := time.Now()
	if !s.limits.refusals.Allow(e.From, now) || !s.limits.allRefusals.AllowN(now, 1) {
		s.limits.unrecorded.Add(1)
		return
	}
	e.Result = code
	if n := s.limits.unrecorded.Swap(0); n > 0 {
		e.Detail = strings.TrimPrefix(e.Detail+"; and "+strconv.FormatInt(n, 10)+" more that were not recorded", "; ")
	}
	if err := s.backend.Record(context.WithoutCancel(ctx), e); err != nil {
		s.log.Error("the audit log cannot be written", "operation", e.What, "err", err)
	}
}
