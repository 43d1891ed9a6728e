package clustertest

import (
	"path"
	"reflect"
	"slices"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
)

// Immutable are the values of a model that a clone may share: records, which are replaced
// as a whole, and what is safe for concurrent use and holds nothing but what was worked
// out. TestAnyTroubleEndsWell holds them to it.
func Immutable(at string, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[autoscale.Want](), reflect.TypeFor[advisor.Inquiry](), reflect.TypeFor[routes.Uses](),
		reflect.TypeFor[jobs.Schedules](): // a cache with a lock of its own
		return true
	}
	return at == "Model.Process.Peer" || at == "Model.Workers[].Says" || // the same
		clonetest.Stored(at, t, "api", "apiv1", "record", "rpc", "wire", "backup", "seal", "place", "enroll", "coord",
			"lease")
}

// Text is all of a model, as text, but what it has worked out of the rest and remembers.
func Text(m *state.Model) string {
	return clonetest.Text(m, func(at string, t reflect.Type) bool {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return path.Base(t.PkgPath()) == "table" && Immutable(at, t) || t == reflect.TypeFor[jobs.Schedules]() ||
			slices.Contains([]string{"Model.byName", "Model.listed", "Model.Workers[].Says"}, at)
	})
}
