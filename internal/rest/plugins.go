package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Plugging is the part of a Backend that is about scheduler plugins.
type Plugging interface {
	// Plugins are those that are registered, and those as which somebody has joined, by
	// name.
	Plugins(ctx context.Context) ([]wire.PluginView, error)
}

func (s *Server) registerPlugins(api huma.API) {
	register(s, api, op("list-plugins", http.MethodGet, "/v1/plugins", "List the scheduler plugins of a cluster", each(ofPlugin)),
		func(ctx context.Context, _ *none) (items[wire.PluginView], error) {
			return list(s.backend.Plugins(ctx))
		})
}

// ofPlugin is the cluster that asks it.
func ofPlugin(v wire.PluginView) access.Object {
	return access.Object{Kind: access.Cluster, Name: v.Cluster, Cluster: v.Cluster}
}

// Plugins of a cluster; see Plugging.
func (c *Client) Plugins(ctx context.Context) ([]wire.PluginView, error) {
	return getList[wire.PluginView](ctx, c, "/v1/plugins", nil)
}
