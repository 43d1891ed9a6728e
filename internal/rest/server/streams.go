package server

import (
	"net/http"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// addStreams adds what is not an operation: health, the description, what moves content, and
// answers to requests that nothing else matches.
func (s *Server) addStreams() {
	s.stream(rest.Watch, s.watches.ServeHTTP)
	s.doc.AddWatch(rest.Watch, rest.WatchType, s.watches.Kinds())
	// Most servers are never asked, and writing it takes more than the rest of their start.
	describe := sync.OnceValues(s.doc.Text)
	s.stream(rest.OpenAPI, func(w http.ResponseWriter, _ *http.Request) {
		spec, err := describe()
		if err != nil {
			s.log.Error("describe the operations", "err", err)
			rest.WriteProblem(w, wire.Problemf(http.StatusInternalServerError, "internal",
				"this is a bug: the log of this role has the details", "the operations cannot be described",
				"GET /openapi.json"))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(spec)
	})
	s.stream(rest.Livez, func(w http.ResponseWriter, _ *http.Request) { plain(w, "ok\n") })
	s.stream(rest.Readyz, s.readyz)
	if s.metrics != nil {
		s.stream(rest.Figures, s.metrics.ServeHTTP)
	}
	s.stream(rest.FigureTargets, s.targets)
	s.stream(rest.WorkerFigures, s.workerMetrics)
	s.stream(rest.TakeBackup, s.backup)
	s.addObjectStreams()
	s.addNodeStreams()
	s.mux.HandleFunc(unmatchedPattern, s.unmatched)
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// A client that is gone cannot be told.
	_, _ = w.Write([]byte(text))
}

// readyz answers 200 when the role can serve. With ?verbose it says what was
// checked.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	serving := "[+] serving: ok"
	select {
	case <-s.drain.Begun():
		serving = "[-] serving: shutting down"
	default:
	}
	role := "[+] role: ok"
	if err := s.backend.Ready(); err != nil {
		role = "[-] role: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	ready := serving[1] == '+' && role[1] == '+'
	verbose := r.URL.Query().Has("verbose")
	if ready {
		if verbose {
			plain(w, serving+"\n"+role+"\nready\n")
		} else {
			plain(w, "ok\n")
		}
		return
	}
	if verbose {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(serving + "\n" + role + "\nnot ready\n"))
		return
	}
	rest.WriteProblem(w, wire.Problemf(http.StatusServiceUnavailable, "not-ready", "see /readyz?verbose",
		"not ready", "this role cannot serve now"))
}

// unmatchedPattern is what serves a request that nothing else does.
const unmatchedPattern = "/"

// unmatched answers for paths and methods that do not exist.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = m
		if _, pattern := s.mux.Handler(probe); pattern != unmatchedPattern {
			allowed = append(allowed, m)
		}
	}
	const remedy = "the operations are at /openapi.json"
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		rest.WriteProblem(w, wire.Problemf(http.StatusMethodNotAllowed, "no-such-method", remedy,
			"no such operation", "%s does not exist for %s, but %s", r.Method, r.URL.Path, strings.Join(allowed, ", ")))
		return
	}
	rest.WriteProblem(w, wire.Problemf(http.StatusNotFound, "no-such-path", remedy,
		"no such operation", "there is nothing at %s", r.URL.Path))
}
