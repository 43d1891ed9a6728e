package cluster

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Job implements rest.Backend: a run that is wanted at this site. Everything else is said
// where the job was applied.
func (b backend) Job(ctx context.Context, app, service string, q wire.JobRequest) (wire.JobResult, error) {
	res := wire.JobResult{Name: app + "." + service}
	b.mu.Lock()
	s := b.m.Shares[res.Name]
	b.mu.Unlock()
	switch {
	case s == nil:
		return res, wire.Problemf(404, "no-such-service", "verge get jobs", "there is no such job", "%s is not in cluster %s", res.Name, b.name)
	case s.Spec.Job == nil:
		return res, wire.NoJob(res.Name)
	case q.Action != wire.JobRunNow:
		return res, wire.Problemf(409, "not-here", "say it at the root; while that is away, change job.suspend in the descriptor and apply it here", "this cannot be done at a cluster", "%s of %s", q.Action, res.Name)
	}
	r, err := b.restartLocal(ctx, app, wire.RestartRequest{Service: service, Reason: q.Reason}, time.Now())
	res.N = r.N
	return res, err
}
