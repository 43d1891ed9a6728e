package root

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Job implements rest.Backend. A run is a mark as of a restart, its end one from the same
// count: which of them is the later one is known to whoever hears of both. Suspend is a
// change of the descriptor, as durable as if it had been written there.
func (b backend) Job(ctx context.Context, app, service string, q wire.JobRequest) (wire.JobResult, error) {
	res := wire.JobResult{Name: app + "." + service}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	old, err := b.changeable(ctx, app, now)
	if err != nil {
		return res, err
	}
	s := old.Spec.Services[service]
	switch {
	case s == nil:
		return res, wire.Problemf(404, "no-such-service", "verge get jobs --app "+app, "there is no such job", "%s is not known", res.Name)
	case s.Job == nil:
		return res, wire.NoJob(res.Name)
	}
	var said string
	next := *old
	mark := wire.Restart{N: b.m.nextRestart(old), By: rest.Caller(ctx), At: now, Why: q.Reason}
	view, _ := b.m.jobView(old, service, b.m.reads().of(app, service))
	switch q.Action {
	case wire.JobRunNow:
		next.Restarts = b.m.marked(old, wire.RestartRequest{Service: service}, mark)
		res.N, said = mark.N, "run asked for"
		switch {
		case s.Cron == nil && s.Job.Suspend:
			res.Message = "it is suspended: nothing of it starts before verge job resume " + res.Name
		case s.Cron != nil && s.Cron.Concurrency == api.CronForbid && view.Run > 0 && view.Outcome == "":
			res.Message = fmt.Sprintf("it begins when run %d has ended (concurrency: forbid)", view.Run)
		}
	case wire.JobStop:
		next.Stops = stops(old, service, mark)
		res.N, said = mark.N, "stop asked for"
		if view.Outcome != "" || s.Cron != nil && view.Run == 0 {
			res.Message = "no run of it is known to go on"
		}
	default:
		source, spec, err := descriptor.Suspended([]byte(old.Source), old.Spec, service, q.Action == wire.JobSuspend)
		if err != nil {
			return res, wire.Problemf(422, "cannot-suspend", "verge get jobs --app "+app, "it cannot be suspended or resumed", "%v", err)
		}
		if res.Revision = old.Revision; records.Same(old.Spec, spec) {
			res.Message = "it is so already"
			return res, nil
		}
		next.Source, next.Spec, next.Revision, next.Applied = string(source), spec, old.Revision+1, now
		next.Changes += changes(old.Spec, spec)
		next.By, next.Why, next.Changed = rest.Caller(ctx), "verge job "+q.Action, changed(old.Spec, spec)
		res.Revision, said = next.Revision, map[string]string{wire.JobSuspend: "suspended", wire.JobResume: "resumed"}[q.Action]
	}
	if err := b.putApp(ctx, &next); err != nil {
		return res, err
	}
	if by := rest.Caller(ctx); by != "" {
		said += " by " + by
	}
	if q.Reason != "" {
		said += ": " + q.Reason
	}
	b.events.Add(now, tier, "service/"+res.Name, said)
	return res, nil
}
