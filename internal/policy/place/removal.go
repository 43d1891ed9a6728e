package place

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// far is how far a worker is from what a request must be near.
type far struct {
	rtt   time.Duration // to the nearest target, -1: unknown
	km    float64       // to the nearest target, -1: unknown
	which int           // index of the threshold
	may   bool          // it may still be near enough (MayKeep)
}

// passed stands for no filter: the candidate was not removed.
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

// removal is why a candidate was removed. Only the example of each filter is put in
// words, so that removing is cheap.
type removal struct {
	filter int
	free   int64 // of the resource that was short, or workers (fAntiService)
	total  bool  // free is what the whole cluster has, not its largest worker
	has    []string
	note   string     // words, the key of a label, or a path
	point  *api.Point // of the worker, or the centre of the cluster's disc
	km     float64    // between point and the location asked for
	far    far        // from what it must be near
}
