package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/verge-edge/verge/internal/wire"
)

// maxImageAsk bounds what a worker asks.
const maxImageAsk = 4 << 10

// ImageShare is the part of a Backend for workers that fetch images.
type ImageShare interface {
	// ImageSources are the workers that may have an image which the worker that asks is
	// to run; what the worker has removed becomes events, and nothing else changes.
	ImageSources(ctx context.Context, q wire.ImageAsk) (wire.ImageSources, error)
}

// registerImages adds what is not for people.
func (s *Server) registerImages() {
	s.handle("POST "+wire.ImageSourcesPath, anyone.silent().forNodes(), func(w http.ResponseWriter, r *http.Request) {
		var q wire.ImageAsk
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxImageAsk)).Decode(&q); err != nil {
			writeProblem(w, wire.Problemf(http.StatusBadRequest, "bad-request", "use the same version of verge on both sides", "the question of a worker cannot be read", "it is not JSON of at most %d KiB", maxImageAsk>>10))
			return
		}
		reply, err := s.backend.ImageSources(r.Context(), q)
		if err != nil {
			p := asProblem(err)
			writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // who asks sees that it was cut off
	})
}

// ImageSources asks for a worker; see ImageShare.
func (c *Client) ImageSources(ctx context.Context, q wire.ImageAsk) (r wire.ImageSources, err error) {
	err = c.send(ctx, http.MethodPost, wire.ImageSourcesPath, q, &r)
	return r, err
}
