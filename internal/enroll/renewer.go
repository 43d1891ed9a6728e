package enroll

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Pauses between two attempts to renew.
const (
	firstPause = 5 * time.Second
	// longestPause after failures; also the pause after a final refusal, for a tier
	// that may change its mind.
	longestPause = time.Hour
	// doubtAfter is how long the link may be away before the HTTP interface is
	// asked whether the fault is ours.
	doubtAfter = 20 * time.Second
	// askPatience bounds one attempt.
	askPatience = time.Minute
)

// Held is what a node has been certified with.
type Held struct {
	// Made, RenewAt (half of its life) and Expires of the certificate.
	Made, RenewAt, Expires time.Time
	// ID is its HeldID.
	ID string
}

// Renewer keeps the certificate of a node valid: it asks the tier above for a
// new one when half of its life is over, when the tier says so, or when the link
// is refused. It costs nothing while none of that is so.
type Renewer struct {
	// Clock by which certificates are judged.
	Clock *pki.Clock
	// Held returns what the node has now.
	Held func() Held
	// Request is what to ask for, without the proof; Prove signs a text with the
	// registered key.
	Request rpc.RenewRequest
	Prove   func(text string) ([]byte, error)
	// Link asks over the connection to the tier above.
	Link func(ctx context.Context, req rpc.RenewRequest) (rpc.JoinReply, error)
	// API are addresses (host:port) of its HTTP interface, Server its TLS name and
	// TLS how it must prove that.
	API    func() []string
	Server string
	TLS    *tls.Config
	// Take stores a new certificate and begins to use it. Without a chain in it
	// the certificate stays, and all else of it is new.
	Take func(rpc.JoinReply) error
	// Refused is called once, with a refusal that trying again will not change.
	Refused func(*wire.Problem)
	Log     *slog.Logger

	once sync.Once
	poke chan struct{}

	mu sync.Mutex // guards below
	renewing
}

// renewing is what is decided from. Times have monotonic readings.
type renewing struct {
	wanted   bool      // the tier above asks for it
	down     time.Time // since when exchanges fail; zero: the last one did not
	refused  bool      // the link was refused, not only lost
	failures int       // attempts that failed since the last one that did not
	tried    time.Time // the last attempt
	final    string    // code of a final refusal, "" none
}

// way is how to ask.
type way int

const (
	notNow way = iota
	byLink
	byAPI
)

// next decides whether to ask now, by the monotonic time and by the clock.
func (s *renewing) next(now, clock time.Time, h Held) way {
	pause := min(firstPause<<min(max(s.failures-1, 0), 10), longestPause)
	if s.final != "" {
		pause = longestPause
	}
	if !s.tried.IsZero() && s.failures > 0 && now.Sub(s.tried) < pause {
		return notNow
	}
	expired := clock.After(h.Expires)
	switch {
	case s.down.IsZero() && s.due(clock, h):
		return byLink
	case s.down.IsZero():
		return notNow
	case expired, s.refused, now.Sub(s.down) >= doubtAfter:
		return byAPI
	}
	return notNow
}

// due says whether another certificate is needed, whatever the link does.
func (s *renewing) due(clock time.Time, h Held) bool {
	return s.wanted || !clock.Before(h.RenewAt) || clock.After(h.Expires) || clock.Before(h.Made.Add(-25*time.Hour))
}

func (r *Renewer) init() { r.once.Do(func() { r.poke = make(chan struct{}, 1) }) }

// Exchanged receives the outcome of every exchange with the tier above. It does not block.
func (r *Renewer) Exchanged(err error) {
	r.mu.Lock()
	switch {
	case err == nil:
		if !r.down.IsZero() {
			r.failures = 0
		}
		r.down, r.refused = time.Time{}, false
	case r.down.IsZero():
		r.down = time.Now()
	}
	due := r.next(time.Now(), r.Clock.Now(), r.Held()) != notNow
	r.mu.Unlock()
	if due {
		r.look()
	}
}

// Want is called when the tier above asks for a renewal. It does not block.
func (r *Renewer) Want() {
	r.mu.Lock()
	r.wanted = true
	r.mu.Unlock()
	r.look()
}

// LinkRefused is called when the tier above was reached and refused the connection. It does not
// block.
func (r *Renewer) LinkRefused(err error) {
	r.mu.Lock()
	first := !r.refused
	r.refused = true
	if r.down.IsZero() {
		r.down = time.Now()
	}
	r.mu.Unlock()
	if first {
		r.Log.Debug("the link is refused, asking why", "error", err)
		r.look()
	}
}

func (r *Renewer) look() {
	r.init()
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Run renews after each change, until ctx is done.
func (r *Renewer) Run(ctx context.Context) {
	r.init()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.poke:
		}
		r.mu.Lock()
		clock, held := r.Clock.Now(), r.Held()
		how, due := r.next(time.Now(), clock, held), r.due(clock, held)
		r.mu.Unlock()
		if how == notNow {
			continue
		}
		holds := ""
		if !due {
			holds = held.ID
		}
		kept, err := r.try(ctx, how, holds)
		if ctx.Err() != nil {
			return
		}
		r.note(kept, err)
	}
}

// try asks once. holds is the certificate that may be kept, "" for none.
func (r *Renewer) try(ctx context.Context, how way, holds string) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var reply rpc.JoinReply
	if how == byLink {
		reply, err = r.Link(ctx, r.Request)
	} else {
		req := r.Request
		req.Holds = holds
		reply, err = Asker{API: r.API(), Server: r.Server, TLS: r.TLS, Prove: r.Prove}.Ask(ctx, req)
	}
	if err != nil {
		return false, err
	}
	if err := wire.CheckVersion("the answer to the renewal", reply.V); err != nil {
		return false, err
	}
	if kept = reply.Chain == ""; kept && holds == "" {
		return false, errors.New("the answer to the renewal has no certificate")
	}
	if err := r.Take(reply); err != nil {
		return false, fmt.Errorf("using the renewed certificate: %w", err)
	}
	return kept, nil
}

// note remembers how an attempt ended, and says what is worth saying. A tier that
// sees no fault in us is asked again when any other attempt would be.
func (r *Renewer) note(kept bool, err error) {
	r.mu.Lock()
	r.tried = time.Now()
	before := r.final
	if err == nil && kept {
		r.refused, r.final = false, ""
		r.failures++
		r.mu.Unlock()
		r.Log.Debug("the tier above answers, but not over the link; the certificate is not at fault")
		return
	}
	if err == nil {
		r.wanted, r.refused, r.failures, r.final = false, false, 0, ""
		if !r.down.IsZero() {
			// Not again at once: the link needs a moment to come up with it.
			r.failures, r.down = 1, r.tried
		}
		r.mu.Unlock()
		r.Log.Info("certificate renewed", "until", r.Held().Expires.UTC().Format(time.DateOnly))
		return
	}
	r.failures++
	verdict := Final(err)
	if verdict != nil {
		r.final = verdict.Code
	}
	r.mu.Unlock()
	var p *wire.Problem
	switch {
	case verdict != nil && verdict.Code != before:
		r.Refused(verdict)
	case verdict != nil:
	case errors.As(err, &p) && (p.Code == client.CodeUnreachable || p.Code == CodeTooSoon):
		r.Log.Debug("the certificate could not be renewed", "error", err)
	default:
		r.Log.Warn("the certificate could not be renewed, it is tried again", "error", err)
	}
}

// Final is the problem in err that trying again will not change; nil if it has
// none.
func Final(err error) *wire.Problem {
	var p *wire.Problem
	if !errors.As(err, &p) {
		return nil
	}
	switch p.Code {
	case rpc.CodeRemoved, rpc.CodeRevoked, rpc.CodeUnknown, rpc.CodeTooLate:
		return p
	}
	return nil
}
