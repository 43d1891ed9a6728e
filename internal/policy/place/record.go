package place

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Record is a decision as a tier stores it with its instance.
type Record struct {
	V        int       `json:"v"`
	At       time.Time `json:"at"`
	Decision Decision  `json:"decision"`
}

// Replay decides again on the inputs that d carries. The result equals d except for
// TookNs, which is zero. It is an error if d left its inputs out, is of a kind unknown to
// this build or was written by a version that this build cannot read.
func Replay(d Decision) (Decision, error) {
	if err := wire.CheckVersion("decision record", d.V); err != nil {
		return Decision{}, fmt.Errorf("replay: %w", err)
	}
	if d.InputsOmitted > 0 {
		return Decision{}, fmt.Errorf("replay: the record left out its %d inputs: records carry at most %d", d.InputsOmitted,
			MaxInputs)
	}
	switch d.Kind {
	case KindClusters:
		return RankClusters(d.Clusters, d.Request), nil
	case KindWorker:
		return Schedule(d.Workers, d.Request), nil
	default:
		return Decision{}, fmt.Errorf("replay: unknown kind of decision %q: this build knows %q and %q", d.Kind, KindClusters,
			KindWorker)
	}
}
