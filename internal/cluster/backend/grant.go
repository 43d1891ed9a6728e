package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// AllowGateway implements rest.Backend.
func (b *Backend) AllowGateway(ctx context.Context, cluster, name string) (wire.GatewayGrant, error) {
	return b.setGateway(ctx, cluster, name, wire.GatewayGrant{Allowed: true})
}

// DenyGateway implements rest.Backend.
func (b *Backend) DenyGateway(ctx context.Context, cluster, name string) error {
	_, err := b.setGateway(ctx, cluster, name, wire.GatewayGrant{})
	return err
}

// setGateway stores whether a worker may be a gateway with TLS, where that is new.
func (b *Backend) setGateway(ctx context.Context, cluster, name string, g wire.GatewayGrant) (wire.GatewayGrant,
	error) {
	if cluster != b.ClusterName {
		return g, rest.ElsewhereAt("operating a worker", cluster)
	}
	return workers.Grant(ctx, b.Core, name, g, rest.Caller(ctx), time.Now())
}
