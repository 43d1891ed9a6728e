// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package experiments

import "testing"

// Experiments of placement in their quick form. Those that measure time require
// nothing there.
func TestPlacementExperiments(t *testing.T) {
	for _, x := range []Experiment{placeRoot, oakestraSplit, oakestraSchedulers, muPlacement, studyPlacement} {
		rows, short, err := x.Run(t.Context(), Options{Quick: true, Seed: 1})
		if err != nil || short != nil || len(rows) == 0 {
			t.Errorf("%s: %d rows, %v %v", x.Name, len(rows), short, err)
		}
	}
}
