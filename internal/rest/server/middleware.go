package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/rest/server/httplistener"
	"github.com/verge-edge/verge/internal/wire"
)

// responseWriter holds the status back until the first byte of the body, so
// that a panic before it can still become a problem.
type responseWriter struct {
	http.ResponseWriter
	status int
	sent   bool
	who    string
}

// WriteHeader remembers the status; the last one before the body counts.
func (w *responseWriter) WriteHeader(status int) {
	if !w.sent {
		w.status = status
	}
}

// Write sends the status first.
func (w *responseWriter) Write(b []byte) (int, error) {
	w.flush()
	return w.ResponseWriter.Write(b)
}

func (w *responseWriter) flush() {
	if w.sent {
		return
	}
	w.sent = true
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(w.status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observe is the outermost layer: it turns panics into problems and logs.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &responseWriter{ResponseWriter: rw, who: "nobody"}
		start := time.Now()
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler { //nolint:errorlint // it is that very value
				defer panic(p) // the connection is to be cut, which is said by the handler
			} else if p != nil {
				s.log.Error("panic in a request", "method", r.Method, "path", r.URL.Path,
					"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if !w.sent {
					w.Header().Del("Content-Length")
					rest.WriteProblem(w, wire.Problemf(http.StatusInternalServerError, "internal",
						"this is a bug: the log of this role has the details", "something failed here", "%s %s",
						r.Method, r.URL.Path))
				}
			}
			w.flush()
			took := time.Since(start)
			s.logRequest(r, w, took)
			// What waits for news says nothing about how fast this role is.
			if s.metrics != nil && !r.URL.Query().Has("wait") && r.URL.Path != rest.Watch.Path {
				_, pattern := s.mux.Handler(r)
				s.metrics.Request(r.Method, pattern, w.status, took)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) logRequest(r *http.Request, w *responseWriter, took time.Duration) {
	level := slog.LevelInfo
	// What changes nothing is not worth a line; nor is every key that is pressed in
	// a session, whose start was.
	if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/exec/") {
		level = slog.LevelDebug
	}
	// Neither query nor body: they may hold what should not be in a log.
	s.log.Log(r.Context(), level, "request", "who", w.who, "what", r.Method+" "+r.URL.Path,
		"status", w.status, "took", took.Round(time.Microsecond))
}

// finish lets requests begin until the server is about to end. From then on only
// who asks for its health is answered, until what had begun is over.
func (s *Server) finish(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == rest.Livez.Path || r.URL.Path == rest.Readyz.Path {
			next.ServeHTTP(w, r)
			return
		}
		if !s.drain.Enter() {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			rest.WriteProblem(w, drain.Problem("nothing new is begun"))
			return
		}
		defer s.drain.Leave()
		next.ServeHTTP(w, r)
	})
}

// limit bounds the time of a request. A request without a body has nothing
// more to read, so the read deadline (which would otherwise cancel a long poll)
// moves to its end.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == rest.Watch.Path && r.Method == http.MethodGet ||
			strings.HasPrefix(r.URL.Path, wire.ObjectsPath) { // they have bounds of their own
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as below
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		if r.Body == nil || r.Body == http.NoBody {
			// Not supported by test recorders, and there not needed.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.timeouts.Answer))
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// authenticate lets through what is open and who is known. What is open is
// decided by the pattern that will serve the request, not by its text.
func (s *Server) authenticate(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := next.Handler(r)
		r = r.WithContext(audit.WithPeer(r))
		d, declared := s.declared[pattern]
		if d.Needs.Open {
			setWho(w, "unauthenticated")
			// A slot in the table of connections is for who is known.
			w.Header().Set("Connection", "close")
			next.ServeHTTP(w, r)
			return
		}
		caller, problem := s.identify(r)
		if problem == nil && caller.Node && !d.Needs.Nodes {
			problem = wire.Problemf(http.StatusForbidden, "not-for-nodes", "use a context (verge context list)",
				"not allowed", "%s may ask for objects and certificates here, and nothing else", caller.Name)
		}
		if problem == nil && !declared && pattern != unmatchedPattern {
			problem = undeclared(pattern)
		}
		if problem != nil {
			what := d.ID
			if what == "" {
				what = r.Method
			}
			s.audit.Refused(r.Context(),
				apiv1.AuditEntry{Who: caller.Name, From: audit.PeerOf(r.Context()), What: what}, problem.Code)
			w.Header().Set("Connection", "close")
			if problem.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			rest.WriteProblem(w, problem)
			return
		}
		httplistener.KeepPlace(r.Context())
		setWho(w, caller.Name)
		if s.notice != nil && r.TLS != nil {
			if text := s.notice(*r.TLS); text != "" {
				w.Header().Set(rest.NoticeHeader, text)
			}
		}
		ctx, end := bound(access.With(r.Context(), caller.Who), caller)
		defer end()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// errEnded is why the context of a request ends when its caller loses a right.
var errEnded = errors.New("the caller's rights have changed")

// principalKey finds the caller in the context of a request.
type principalKey struct{}

// bound is ctx until the caller's rights end. end must be called, and waits.
func bound(ctx context.Context, c rest.Principal) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, principalKey{}, c))
	var watch sync.WaitGroup
	if c.Ended != nil {
		watch.Go(func() {
			select {
			case <-c.Ended:
				cancel(errEnded)
			case <-ctx.Done():
			}
		})
	}
	stop := func() bool { return true }
	if c.Left > 0 {
		stop = time.AfterFunc(c.Left, func() { cancel(errEnded) }).Stop
	}
	return ctx, func() {
		stop()
		cancel(nil)
		watch.Wait()
	}
}

// ended is what to answer if the caller's rights have ended meanwhile, else nil.
func ended(ctx context.Context) error {
	if !errors.Is(context.Cause(ctx), errEnded) {
		return nil
	}
	return wire.Problemf(http.StatusUnauthorized, "access-ended",
		"ask again; if that is refused, an administrator can say why: verge user describe NAME",
		"the request was cut off", "%v", errEnded)
}

func setWho(w http.ResponseWriter, who string) {
	if rw, ok := w.(*responseWriter); ok {
		rw.who = who
	}
}

// identify says who asks. A bearer token counts before a certificate: whoever
// sends one means it.
func (s *Server) identify(r *http.Request) (_ rest.Principal, _ *wire.Problem) {
	const remedy = "use a context (verge context list) or a token made with: verge token create --api"
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, token, ok := strings.Cut(h, " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return rest.Principal{}, wire.Problemf(http.StatusUnauthorized, "unauthenticated", remedy,
				"not authenticated", "the Authorization header is not of the form: Bearer TOKEN")
		}
		token = strings.TrimSpace(token)
		if s.limits.guesses.Exhausted(r.RemoteAddr, time.Now()) && !s.limits.trusted.Has(token) {
			return rest.Principal{}, wire.Problemf(http.StatusTooManyRequests, "too-many-guesses",
				"wait some seconds; then ask once, with a token that is good",
				"not authenticated", "too many tokens from this address were refused")
		}
		caller, err := s.backend.Authenticate(r.Context(), token)
		s.limits.trusted.Note(token, err == nil)
		if err == nil {
			return caller, nil
		}
		s.limits.guesses.Allow(r.RemoteAddr, time.Now())
		p := rest.ProblemOf(err)
		if p.Code == "internal" {
			return rest.Principal{}, wire.Problemf(http.StatusUnauthorized, "token-refused", remedy,
				"the token is not accepted", "%v", err)
		}
		return rest.Principal{}, p
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if s.authorize == nil {
			return rest.Principal{}, wire.Problemf(http.StatusForbidden, "not-admin", remedy,
				"not allowed", "certificates are not accepted here")
		}
		caller, err := s.authorize(*r.TLS)
		if err != nil {
			return rest.Principal{}, wire.Problemf(http.StatusForbidden, "not-admin", remedy,
				"not allowed", "the client certificate is not an administrator's: %v", err)
		}
		return caller, nil
	}
	return rest.Principal{}, wire.Problemf(http.StatusUnauthorized, "unauthenticated", remedy,
		"not authenticated", "the request has neither a client certificate nor a bearer token")
}
