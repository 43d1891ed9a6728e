// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package experiments

import "testing"

func TestMuScale(t *testing.T) {
	for _, x := range []Experiment{muPredictor, muAutoscaler, muOverall} {
		e := &env{Options: Options{Quick: true, Seed: 1}, name: x.Name}
		if err := x.virtual(t.Context(), e); err != nil || len(e.rows) == 0 {
			t.Errorf("%s: %d rows, %v", x.Name, len(e.rows), err)
		}
	}
}
