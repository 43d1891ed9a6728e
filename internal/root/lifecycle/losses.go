package lifecycle

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What the silence of a worker affects is an event of its cluster here. The worker is named
// only where its cluster tells it (--share-details).

// MaxLosses of a cluster are followed at a time.
const MaxLosses = 100

// NoteLoss notes an instance of which the worker is not heard of any more.
func NoteLoss(cl *state.Cluster, i *wire.Instance, now time.Time) {
	if cl.Losing == nil {
		cl.Losing = map[string]*suspicion.Loss{}
	}
	if cl.Losing[i.Worker] == nil {
		cl.Losing[i.Worker] = &suspicion.Loss{Since: now, Cluster: cl.Name}
	}
	cl.Losing[i.Worker].Add(i)
}
