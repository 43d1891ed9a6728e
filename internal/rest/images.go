package rest

import (
	"context"
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
	answerNodes(s, wire.ImageSourcesPath, "the question of a worker", maxImageAsk, s.backend.ImageSources)
}

// ImageSources asks for a worker; see ImageShare.
func (c *Client) ImageSources(ctx context.Context, q wire.ImageAsk) (r wire.ImageSources, err error) {
	err = c.send(ctx, http.MethodPost, wire.ImageSourcesPath, q, &r)
	return r, err
}
