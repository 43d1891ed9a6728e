package roottest

import (
	"path"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Immutable are the values of a model that a clone may share: records and messages, which
// are replaced as a whole. TestAnyTroubleEndsWell holds them to it.
func Immutable(at string, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[wire.Share]():
		return at != "Model.Shares[]" // see sameShare
	case reflect.TypeFor[state.ClusterRecord](), reflect.TypeFor[state.Lost](), reflect.TypeFor[state.Holdings]():
		return true
	}
	return clonetest.Stored(at, t, "api", "apiv1", "record", "rpc", "wire", "backup", "enroll", "lease")
}

// Text is all that a root knows, as text, but what it has worked out of the rest and
// remembers.
func Text(t *testing.T, m *state.Model) string {
	t.Helper()
	return clonetest.Text(m, func(at string, t reflect.Type) bool {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return at == "Model.index" || path.Base(t.PkgPath()) == "table" && Immutable(at, t)
	})
}
