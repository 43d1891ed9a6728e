package kubernetes

import (
	"cmp"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// macros are the short forms of schedules.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// schedule converts when a job runs.
func (g *group) schedule(w *workload, out *api.Service) {
	s, o := w.cron, w.object
	if s == nil {
		return
	}
	at := func(field string) []string { return o.At("spec", field) }
	c := &api.Cron{Schedule: strings.TrimSpace(s.Schedule), Zone: s.TimeZone}
	if first, rest, ok := strings.Cut(c.Schedule, " "); ok { // the form before timeZone existed
		if zone, is := strings.CutPrefix(strings.TrimPrefix(first, "CRON_"), "TZ="); is {
			c.Zone, c.Schedule = zone, strings.TrimSpace(rest)
		}
	}
	if m := macros[c.Schedule]; m != "" {
		c.Schedule = m
	}
	if _, err := api.ParseSchedule(c.Schedule, cmp.Or(c.Zone, "UTC")); err != nil {
		g.refuse(o, at("schedule"), "cannot be expressed: %s is not a schedule: %v", source.Quote(s.Schedule), err)
		return
	}
	switch s.ConcurrencyPolicy {
	case "", "Allow":
		g.note(s.ConcurrencyPolicy != "", o, at("concurrencyPolicy"),
			"runs of a schedule do not overlap: a time that comes during a run is skipped")
	case "Forbid":
	case "Replace":
		c.Concurrency = api.CronReplace
	}
	if s.StartingDeadlineSeconds != nil {
		g.lost(o, at("startingDeadlineSeconds"),
			"is not carried over: what was missed is run once, however late (cron.missed)")
	}
	if s.SuccessfulJobsHistoryLimit != nil || s.FailedJobsHistoryLimit != nil {
		n := min(max(int(deref(s.SuccessfulJobsHistoryLimit))+int(deref(s.FailedJobsHistoryLimit)), 0), api.MaxKeepRuns)
		c.Keep = &n
	}
	out.Cron, out.Job.Suspend = c, out.Job.Suspend || s.Suspend
}
