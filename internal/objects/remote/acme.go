package remote

import (
	"context"

	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ACME asks for what the gateways of a cluster share; see rest.Gateways.
func (r *Remote) ACME(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error) {
	return first(r, func(c *nodeclient.Client) (rpc.ACMEReply, error) { return c.GatewayACME(ctx, q) })
}
