package placement

import (
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
)

// Known is what this process knows beside what is stored.
type Known struct {
	// Leads are services of which a replica should be in another cluster, by app.service.
	Leads map[string]*Leading
	// LastMoves says when instances of a service were last begun to be moved since their
	// cluster does not keep their agreement, by app.service.
	LastMoves map[string]time.Time
	// pruned is when refusals were looked through last.
	pruned time.Time
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Leads: map[string]*Leading{}, LastMoves: map[string]time.Time{}} },
	Clone: func(k *Known) *Known {
		return &Known{Leads: records.CloneEach(k.Leads), LastMoves: maps.Clone(k.LastMoves), pruned: k.pruned}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
