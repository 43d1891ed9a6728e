package state

import (
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Another revision of the same program is the same run; of another it is not,
// even under the same incarnation (a cluster that lost its store counts anew).
func TestSameRun(t *testing.T) {
	at := func(incarnation int, revision uint64, command string) wire.Order {
		return wire.Order{Incarnation: incarnation, Revision: revision, Spec: &api.Service{Command: []string{command}}}
	}
	a := at(1, 1, "x")
	for name, tc := range map[string]struct {
		b    wire.Order
		same bool
	}{
		"itself":              {at(1, 1, "x"), true},
		"a later revision":    {at(1, 2, "x"), true},
		"another program":     {at(1, 2, "y"), false},
		"another incarnation": {at(2, 1, "x"), false},
	} {
		if got := SameRun(&a, &tc.b); got != tc.same {
			t.Errorf("%s: same run %v, want %v", name, got, tc.same)
		}
	}
}
