package compose

import (
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// rollout converts the update settings: how many at a time, before or after the old ones end.
func (c *converter) rollout(name string, s types.ServiceConfig, out *api.Service) {
	if s.Deploy == nil || s.Deploy.UpdateConfig == nil || out.Job != nil {
		return
	}
	u, at := s.Deploy.UpdateConfig, c.path(name, "deploy", "update_config")
	n, none := api.Amount(1), api.Amount(0) // Docker's default is one at a time
	if u.Parallelism != nil {
		if n = api.Amount(min(*u.Parallelism, api.MaxReplicas)); n == 0 {
			n = -100
		}
	}
	r := &out.Rollout
	switch {
	case u.Order == "start-first" && out.Pins():
		c.report.At(report.Lost, c.doc, source.Extend(at, "order"),
			"is not carried over: each instance has a volume that is kept for it alone")
		r.MaxSurge, r.MaxUnavailable = &none, &n
	case u.Order == "start-first":
		r.MaxSurge, r.MaxUnavailable = &n, &none
	default:
		r.MaxSurge, r.MaxUnavailable = &none, &n
	}
	if d := time.Duration(u.Monitor); d > 0 {
		ready := draft.Clamp(c.report, c.doc, source.Extend(at, "monitor"), d, 0, time.Hour)
		r.MinReady = &ready
		if least := 2 * ready; least > api.DefaultProgressDeadline {
			r.ProgressDeadline = &least
		}
	}
	switch u.FailureAction {
	case "rollback":
		r.OnFailure = api.RollBack
	case "continue":
		c.report.At(report.Lost, c.doc, source.Extend(at, "failure_action"),
			"is not carried over: a rollout that has failed stops (rollout.on_failure)")
	}
	if u.Delay > 0 {
		c.report.At(report.Lost, c.doc, source.Extend(at, "delay"),
			"is not carried over: the next are updated when those before have been ready for rollout.min_ready")
	}
	if u.MaxFailureRatio > 0 {
		c.report.At(report.Lost, c.doc, source.Extend(at, "max_failure_ratio"),
			"is not carried over: a rollout has failed when one instance does not get ready in time "+
				"(rollout.progress_deadline)")
	}
}
