package remote

import (
	"context"

	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
)

// ACME asks for what the gateways of a cluster share; see rest.Gateways.
func (r *Remote) ACME(ctx context.Context, q wire.ACMERequest) (wire.ACMEReply, error) {
	return first(r, func(c *nodeclient.Client) (wire.ACMEReply, error) { return c.GatewayACME(ctx, q) })
}
