package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Job implements rest.Backend: a run that is wanted at this site. Everything else is said
// where the job was applied.
func (b *Backend) Job(ctx context.Context, app, service string, q apiv1.JobRequest) (apiv1.JobResult, error) {
	res := apiv1.JobResult{Name: app + "." + service}
	s := core.View(b.Core, func(m *state.Model) *wire.Share { return m.Shares[res.Name] })
	switch {
	case s == nil:
		return res, wire.Problemf(404, "no-such-service", "verge get jobs", "there is no such job",
			"%s is not in cluster %s", res.Name, b.ClusterName)
	case s.Spec.Job == nil:
		return res, wire.NoJob(res.Name)
	case q.Action != apiv1.JobRunNow:
		return res, wire.Problemf(409, "not-here",
			"say it at the root; while that is away, change job.suspend in the descriptor and apply it here",
			"this cannot be done at a cluster", "%s of %s", q.Action, res.Name)
	}
	r, err := edits.RestartLocal(ctx, b.Core, app, apiv1.RestartRequest{Service: service, Reason: q.Reason}, time.Now())
	res.N = r.N
	return res, err
}
