package clustertest

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
)

// checkIndex holds that the index by which a pass placed is what it would be if it
// were made anew of what is used now.
func checkIndex(tb testing.TB, t *state.Tx) {
	tb.Helper()
	was := fleet.Pass(t).Fleet
	if was == nil {
		return
	}
	told := fleet.Pass(t).Told
	fleet.Pass(t).Fleet, fleet.Pass(t).Told, fleet.Pass(t).PortsOf = nil, nil, nil
	for key := range told {
		placement.Rate(t, key)
	}
	views := func(f *place.Fleet, key string) []place.WorkerView {
		out := slices.Clone(f.Views(key))
		slices.SortFunc(out, func(a, b place.WorkerView) int { return cmp.Compare(a.ID, b.ID) })
		return out
	}
	for key := range t.Model.Shares {
		if now, then := views(fleet.Index(t), key), views(was, key); !reflect.DeepEqual(now, then) {
			tb.Fatalf("the index has for %s\n%+v\nis\n%+v", key, then, now)
		}
	}
	fleet.Pass(t).Fleet = was
}
