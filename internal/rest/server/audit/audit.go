// Package audit writes to the audit log who did what. Every change, and every exec and use of a
// token, is written before it is acknowledged; what opens a session of its own before it begins. A
// refusal is written too, but not every one of many: who asks in a loop must not wear out a disk,
// nor push what others did out of the log.
package audit

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	// rate: token bucket, already linked by the bus.
	"golang.org/x/time/rate"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/limit"
	"github.com/verge-edge/verge/internal/wire"
)

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

// WithPeer is the context of a request with where it comes from.
func WithPeer(r *http.Request) context.Context {
	return context.WithValue(r.Context(), peerKey{}, r.RemoteAddr)
}

// Operation is what is recorded, and what it needs of who asks.
type Operation struct {
	ID    string
	Needs rest.Need
}

// Log writes to the audit log of a backend. It is safe for concurrent use.
type Log struct {
	backend rest.Backend
	site    rest.Site
	log     *slog.Logger

	// Refusals are recorded up to these.
	each       *limit.Sources
	all        *rate.Limiter
	unrecorded atomic.Int64 // refusals since the last that was
}

// New writes to the audit log of a backend.
func New(backend rest.Backend, site rest.Site, log *slog.Logger) *Log {
	return &Log{
		backend: backend, site: site, log: log,
		each: limit.NewSources(refusalsPerSecond, refusalBurst),
		all:  rate.NewLimiter(allRefusalsPerSecond, allRefusalBurst),
	}
}

// entry describes what was asked for.
func (l *Log) entry(ctx context.Context, o Operation, q rest.Question, out any) apiv1.AuditEntry {
	e := apiv1.AuditEntry{Who: access.From(ctx).Name, From: PeerOf(ctx), What: o.ID, Result: "ok"}
	if in, ok := q.In.(rest.Subjecter); ok {
		e.On, e.Detail = in.Subject()
		return e
	}
	if r, ok := out.(apiv1.ApplyResult); ok && r.Name != "" {
		e.On, e.Detail = string(access.Application)+"/"+r.Name, r.Change
		return e
	}
	if o.Needs.Finder != nil {
		if on, err := o.Needs.Finder.Find(l.site, q); (err == nil || on.Name != "") && on.Kind != access.System {
			e.On = on.String()
		}
	}
	return e
}

// Record writes what was done, or refused with err, to the audit log. What could
// not be written is an error, whatever became of the rest.
func (l *Log) Record(ctx context.Context, o Operation, q rest.Question, out any, err error) error {
	if in, ok := q.In.(rest.Rehearsed); ok && in.Rehearsal() {
		return err
	}
	if err != nil {
		e, p := l.entry(ctx, o, q, nil), rest.ProblemOf(err)
		if p.Code == wire.CodeHookRefused || p.Code == wire.CodeHookSilent {
			e.Detail = p.Detail // who has decided it, and why
		}
		l.Refused(ctx, e, p.Code)
		return err
	}
	// It was done: that its client has gone away must not keep it out of the log.
	if rerr := l.backend.Record(context.WithoutCancel(ctx), l.entry(ctx, o, q, out)); rerr != nil {
		l.log.Error("the audit log cannot be written", "operation", o.ID, "err", rerr)
		return wire.Problemf(http.StatusInsufficientStorage, "not-recorded",
			"see whether it was done before you try again, and repair the disk of this role",
			"it was done, but could not be written to the audit log", "%v", rerr)
	}
	return nil
}

// Begin writes what is about to begin, and goes on by itself, to the audit log.
func (l *Log) Begin(ctx context.Context, o Operation, q rest.Question) error {
	e := l.entry(ctx, o, q, nil)
	e.Result = "begun"
	if err := l.backend.Record(ctx, e); err != nil {
		return wire.Problemf(http.StatusInsufficientStorage, "not-recorded",
			"repair the disk of this role, then try again",
			"nothing was done: it could not be written to the audit log", "%v", err)
	}
	return nil
}

// Refused writes a refusal to the audit log, unless there are too many.
func (l *Log) Refused(ctx context.Context, e apiv1.AuditEntry, code string) {
	now := time.Now()
	if !l.each.Allow(e.From, now) || !l.all.AllowN(now, 1) {
		l.unrecorded.Add(1)
		return
	}
	e.Result = code
	if n := l.unrecorded.Swap(0); n > 0 {
		e.Detail = strings.TrimPrefix(e.Detail+"; and "+strconv.FormatInt(n, 10)+" more that were not recorded", "; ")
	}
	if err := l.backend.Record(context.WithoutCancel(ctx), e); err != nil {
		l.log.Error("the audit log cannot be written", "operation", e.What, "err", err)
	}
}
