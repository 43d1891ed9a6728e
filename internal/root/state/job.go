package state

import (
	"fmt"

	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// A job has an instance for each of its indexes. The root divides them among clusters,
// and how many of them may run at a time; the clusters run them by themselves. That an
// index has completed is stored here as well: its cluster may be lost later.

// JobRule is what tells whether an index of a job has completed: which program, and which
// restart was asked for last.
type JobRule struct {
	Program string
	App     *record.Application
	service string
}

// RuleOf is the rule of a job as it is applied.
func RuleOf(app *record.Application, service string) JobRule {
	return JobRule{app.Spec.Services[service].ProgramID(), app, service}
}

// Counts says whether what an instance was started for is what is wanted now.
func (r JobRule) Counts(i *wire.Instance) bool {
	n := r.App.Restarts[r.service].N
	if one, ok := r.App.Restarts[fmt.Sprintf("%s.%d", r.service, i.Ordinal)]; ok {
		n = max(n, one.N)
	}
	return i.Program == r.Program && i.Restarted >= n
}

// Done says whether the index of an instance has completed, as it is stored here. Of a job
// with a schedule that is not: there will be other runs.
func (r JobRule) Done(i *wire.Instance) bool {
	return r.App.Spec.Services[r.service].Cron == nil && i.Job != nil && !i.Job.Completed.IsZero() && r.Counts(i)
}

// IndexOf an instance of a job.
func IndexOf(i *wire.Instance) int {
	if i.Job != nil {
		return i.Job.Index
	}
	return i.Ordinal
}
