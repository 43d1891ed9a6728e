package backend

import (
	"context"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/cluster/gateways"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// GatewayACME implements rest.Backend. Only workers that may be gateways with TLS are
// served.
func (b *Backend) GatewayACME(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error) {
	who := access.From(ctx)
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.ClusterName+"/")
	if !who.Node || !ok {
		return rpc.ACMEReply{}, wire.Problemf(403, "not-a-gateway",
			"look at certificates with verge describe worker/NAME", "not allowed",
			"only gateways share what they have of ACME servers")
	}
	return gateways.Acme(ctx, b.Core, worker, q, time.Now())
}
