package rest

import (
	"context"
	"net/http"
	"sync"

	"github.com/verge-edge/verge/internal/wire"
)

// work counts the requests that are being answered, so that the end of a server can
// wait for them while it still answers those who ask whether it is there.
type work struct {
	mu    sync.Mutex // guards below
	n     int
	ended bool
	idle  chan struct{} // closed when n becomes 0 after end
}

// begin is false once the end has begun.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.n++
	return true
}

func (w *work) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 && w.ended {
		close(w.idle)
	}
}

// end lets nothing new begin and waits for what has, or for the end of ctx.
func (w *work) end(ctx context.Context) {
	w.mu.Lock()
	if !w.ended {
		w.ended, w.idle = true, make(chan struct{})
		if w.n == 0 {
			close(w.idle)
		}
	}
	idle := w.idle
	w.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// finish lets requests begin until the server is about to end. From then on only
// who asks for its health is answered, until what had begun is over.
func (s *Server) finish(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == livezPath || r.URL.Path == readyzPath {
			next.ServeHTTP(w, r)
			return
		}
		if !s.work.begin() {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			writeProblem(w, shuttingDown("nothing new is begun"))
			return
		}
		defer s.work.done()
		next.ServeHTTP(w, r)
	})
}

func shuttingDown(detail string) *wire.Problem {
	return wire.Problemf(http.StatusServiceUnavailable, "shutting-down", "try again in a moment", "this role is shutting down", "%s", detail)
}
