package proxy

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
)

// Distances are what policies go by. A Router calls them from any goroutine, with
// locks held: they return at once.
type Distances interface {
	// Want says that a service is used that needs the distances to these workers.
	Want(service string, workers []Worker)
	// Distance to a worker, where it comes from, and when it was found.
	Distance(cluster, worker string) (rtt time.Duration, from route.Source, at time.Time)
	// Version changes when a Distance may have.
	Version() uint64
}
