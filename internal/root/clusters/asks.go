package clusters

import (
	"errors"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Details says whether a cluster lets its inside be asked for: nil, or what to
// answer, under a title.
func Details(c *core.Core, name, title string) error {
	return core.View(c, func(m *state.Model) error {
		cl := m.Clusters[name]
		switch {
		case cl == nil:
			return NoCluster(name)
		case cl.Aggregate == nil:
			return wire.Problemf(503, "cluster-away", "try again when it is back: verge get clusters", title,
				"cluster %s has not reported since the root started", name)
		case !cl.Aggregate.Details:
			return wire.Problemf(403, "kept-private",
				rest.ContextOf(name)+"; or its operator starts it with --share-details", title,
				"cluster %s keeps its details to itself", name)
		}
		return nil
	})
}

// AsIfAway reports whether a cluster could not be asked, or has nothing of the service ready; the
// others can be profiled without it.
func AsIfAway(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && slices.Contains([]string{"kept-private", "cluster-away", "cluster-unavailable",
		"no-such-cluster", "nothing-runs", "no-such-service", "unknown-question", "bad-query", "bad-request"}, p.Code)
}

// ProfilePart is what one cluster says.
type ProfilePart struct {
	Report *rpc.ProfileReport
	Err    error
}

// Summed is the report of several clusters.
type Summed struct{ rpc.ProfileReport }

// Add the report of a cluster. It has failed where one has, goes on where one does, and
// is stored where that of any is.
func (s *Summed) Add(r *rpc.ProfileReport, cluster string) {
	worse := []string{"", rpc.ProfileDone, rpc.ProfileRuns, rpc.ProfileFailed}
	if slices.Index(worse, r.State) > slices.Index(worse, s.State) {
		s.State = r.State
	}
	if r.Why != "" {
		s.Why = strings.TrimPrefix(s.Why+"; cluster "+cluster+", "+r.Why, "; ")
	}
	s.Stored = s.Stored || r.Stored
	s.Took, s.Whole = max(s.Took, r.Took), max(s.Whole, r.Whole)
	for _, n := range r.Nodes {
		n.Cluster = cluster
		s.Nodes = append(s.Nodes, n)
	}
}
