package experiments

import (
	"context"
	"fmt"
	"os"

	"github.com/verge-edge/verge/internal/lab"
)

func there() []Experiment {
	return []Experiment{proxymityImbalance, proxymityLatency}
}

// up makes a lab for an experiment; the caller ends it.
func (e *env) up(ctx context.Context, f lab.File) (*lab.Lab, error) {
	e.labs++
	f.Name = fmt.Sprintf("x%d-%d", os.Getpid(), e.labs)
	f.Seed = e.Seed
	return lab.Up(ctx, f, lab.Options{Verge: e.Verge})
}

// measured notes the emulator's error at the rows from the given one on.
func (e *env) measured(from int, a lab.Accuracy) {
	e.Say("%s: %s", e.name, a)
	for i := range e.rows[from:] {
		r := &e.rows[from+i]
		r.ErrorP50, r.ErrorP99 = known(lab.Milliseconds(a.ErrorP50)), known(lab.Milliseconds(a.ErrorP99))
	}
}
