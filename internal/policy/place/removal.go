package place

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// far is what a worker is away from what a request must be near.
type far struct {
	rtt   time.Duration // to the nearest target, -1: not known
	km    float64       // to the nearest target, -1: not known
	which int           // index of the threshold
	may   bool          // it may be near enough all the same (MayKeep)
}

// passed is the filter of what none removed.
const passed = -1

// Filters of RankClusters, in their order.
const (
	fConnected = iota
	fCordoned
	fCluster
	fArea
	fAntiCluster
	fAntiArea
	fRuntime
	fPlugin
	fWorkers
	fDevices
	fArch
	fLabels
	fLocation
	fPolygon
	fAntiLabels
	fAntiService
	fLatency
	fDistance
	fRefused
	fFirstResource
	clusterFilters = fFirstResource + amount.Kinds
)

// removal is why one candidate went. Words are made of it only for the one
// that becomes the example of its filter, so that removing costs nothing.
type removal struct {
	filter int
	free   int64 // of the resource that was short, or suspect workers
	total  bool  // free is what the whole cluster has, not its largest worker
	has    []string
	note   string     // words, the key of a label, or a path
	point  *api.Point // of the worker, or the centre of the cluster's disc
	km     float64    // between point and the location asked for
	far    far        // how far off what it must be near
}
