package cluster

import (
	"slices"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
)

// Kinds of records in a cluster's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	return slices.Concat(state.Schema.Kinds(), people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
}

// Lost are the records of a cluster's store that cannot be read, those first that matter
// most.
func Lost(entries []bus.Entry) []records.Lost {
	db := state.Schema.New()
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error {
		_, err := db.Load(e)
		return err
	})
}
