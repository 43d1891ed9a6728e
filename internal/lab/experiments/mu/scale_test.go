// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package mu

import (
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

func TestMuScale(t *testing.T) {
	for _, x := range []experiment.Experiment{Predictor, Autoscaler, Overall} {
		e := &experiment.Env{Options: experiment.Options{Quick: true, Seed: 1}, Name: x.Name}
		if err := x.Virtual(t.Context(), e); err != nil || len(e.Rows) == 0 {
			t.Errorf("%s: %d rows, %v", x.Name, len(e.Rows), err)
		}
	}
}
