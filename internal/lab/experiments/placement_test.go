// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package experiments

import (
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/mu"
	"github.com/verge-edge/verge/internal/lab/experiments/oakestra"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/lab/experiments/study"
)

// Experiments of placement in their quick form. Those that measure time require
// nothing there.
func TestPlacementExperiments(t *testing.T) {
	for _, x := range []experiment.Experiment{promises.PlaceRoot, oakestra.Split, oakestra.Schedulers, mu.Placement, study.Placement} {
		rows, short, err := x.Run(t.Context(), experiment.Options{Quick: true, Seed: 1})
		if err != nil || short != nil || len(rows) == 0 {
			t.Errorf("%s: %d rows, %v %v", x.Name, len(rows), short, err)
		}
	}
}
