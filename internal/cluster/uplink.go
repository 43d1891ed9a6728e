package cluster

import (
	"context"
	"encoding/json"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// lower is the exchange with the root. exchanged is told the outcome of every
// exchange, renew that the root asks for a renewal; both may be nil.
func lower(c *core.Core, exchanged func(error), renew func()) *exchange.Lower {
	return &exchange.Lower{
		Conn: c.Up, Subjects: exchange.ClusterSubjects(), Desired: uplink.FromRoot(c),
		Observed: exchange.StoreSource{Store: c.RecordStore, Prefix: state.KeyUp},
		Changed:  c.UpChanged, Status: func(full bool) (json.RawMessage, error) { return uplink.UpStatus(c, full) },
		Renew: renew, OnWas: func(was wire.Rev) { uplink.OnWas(c, was) }, Partial: uplink.FromRoot(c).Partial,
		OnReply: func(err error) {
			uplink.OnUpReply(c, err)
			if exchanged != nil {
				exchanged(err)
			}
		},
		Min: uplink.UpMin, Max: uplink.UpMax,
		Answer: func(ctx context.Context, q rpc.Ask) (any, error) { return answer.Answer(ctx, c, q) },
		Log:    c.Logger,
	}
}
