package backend

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
)

// Who lists instances makes no transaction for each.
func TestAListOfInstancesIsOneLook(t *testing.T) {
	const nWorkers = 1000
	b := &Backend{Core: clustertest.ManyWorkers(t, nWorkers, time.Now())}
	if n := testing.AllocsPerRun(5, func() {
		if list, err := b.Instances(t.Context(), "", ""); err != nil || len(list) != nWorkers {
			t.Fatal(len(list), err)
		}
	}); n > 3*nWorkers {
		t.Errorf("%v allocations for %d instances", n, nWorkers)
	}
}
