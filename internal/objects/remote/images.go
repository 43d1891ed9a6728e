package remote

import (
	"context"

	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ImagesGone tells which images were removed to make room.
func (r *Remote) ImagesGone(ctx context.Context, gone []rpc.ImageGone) error {
	_, err := first(r, func(c *nodeclient.Client) (rpc.ImageSources, error) {
		return c.ImageSources(ctx, rpc.ImageAsk{V: wire.Version, Gone: gone})
	})
	return err
}

// ImageSources asks which workers may have an image; see rest.ImageShare.
func (r *Remote) ImageSources(ctx context.Context, image string) ([]rpc.ImageSource, error) {
	reply, err := first(r, func(c *nodeclient.Client) (rpc.ImageSources, error) {
		return c.ImageSources(ctx, rpc.ImageAsk{V: wire.Version, Image: image})
	})
	return reply.Sources, err
}
