package reconcile

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
)

// Effect makes the shares that count, of what the root delegates and what was
// changed here: all of them, or those of the named services (app.service).
func Effect(m *state.Model, keys ...string) {
	if len(keys) == 0 {
		keys = slices.AppendSeq(slices.Collect(maps.Keys(m.FromRoot)), maps.Keys(localedit.Table.Rows(m.DB)))
		keys = slices.AppendSeq(keys, maps.Keys(m.Shares))
	}
	var known map[string]bool
	for _, key := range keys {
		s, l := m.FromRoot[key], localedit.Table.Rows(m.DB)[key]
		if l != nil {
			if known == nil {
				known = localedit.RootKnows(m)
			}
			if f, _ := localedit.Fate(m, l, known); f == localedit.Stands {
				s = l.Share(s)
			}
		}
		if s == nil {
			delete(m.Shares, key)
		} else {
			s = localedit.AgainTable.Rows(m.DB)[key].On(autoscale.Table.Rows(m.DB)[key].On(s))
			m.Shares[key] = rollouts.Table.Rows(m.DB)[key].On(s)
		}
	}
}

func init() {
	state.Derive(state.Derivation{Loaded: func(m *state.Model) { Effect(m) }, Done: merge})
}

// merge makes the shares anew whose parts t has changed.
func merge(t *state.Tx) {
	fromRoot := state.FromRootTable.Changes(t.Rows)
	keys := slices.Concat(records.SortedKeys(fromRoot),
		records.SortedKeys(autoscale.Table.Changes(t.Rows)), records.SortedKeys(rollouts.Table.Changes(t.Rows)),
		records.SortedKeys(localedit.Table.Changes(t.Rows)), records.SortedKeys(localedit.AgainTable.Changes(t.Rows)),
	)
	if len(fromRoot) > 0 || len(state.FarTable.Changes(t.Rows)) > 0 {
		// What the root knows decides on changes that were made here.
		keys = slices.AppendSeq(keys, maps.Keys(localedit.Table.Rows(t.Model.DB)))
	}
	if len(keys) > 0 {
		Effect(t.Model, keys...)
	}
}
