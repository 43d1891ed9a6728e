package experiment

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/verge-edge/verge/internal/lab"
)

// labs that this process has made: each has a name of its own.
var labs atomic.Int64

// Up makes a lab for an experiment; the caller ends it.
func (e *Env) Up(ctx context.Context, f lab.File) (*lab.Lab, error) {
	f.Name = fmt.Sprintf("x%d-%d", os.Getpid(), labs.Add(1))
	f.Seed = e.Seed
	return lab.Up(ctx, f, lab.Options{Base: e.Base, Verge: e.Verge, Tool: e.Tool})
}

// Measured notes the emulator's error at the rows from the given one on: that of
// pings, or where there were none how late packets were.
func (e *Env) Measured(from int, a lab.Accuracy) {
	e.Say("%s: %s", e.Name, a)
	p50, p99 := a.ErrorP50, a.ErrorP99
	if a.Pings == 0 {
		p50, p99 = a.LateP50, a.LateP99
	}
	for i := range e.Rows[from:] {
		r := &e.Rows[from+i]
		r.ErrorP50, r.ErrorP99 = Known(lab.Milliseconds(p50)), Known(lab.Milliseconds(p99))
	}
}
