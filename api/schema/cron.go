package schema

import (
	"github.com/verge-edge/verge/api"
)

// cronRows are the fields of schedules.
func cronRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.cron",
			Note: "The job runs on a schedule (see [schedules](concepts.md#schedules)), and not when it is " +
				"applied. Without `job` it is a job with the defaults."},
		{Path: "services.*.cron.schedule", Required: true,
			Note: "Five fields of cron: minute, hour, day of the month, month, day of the week. It may have " +
				"names (`mon`, `jan`), lists, ranges and steps; where both days are restricted, either counts."},
		{Path: "services.*.cron.zone", Default: "UTC",
			Note: "Time zone of the schedule, by its name in the IANA database (`Europe/Berlin`)."},
		{Path: "services.*.cron.concurrency", Default: api.CronForbid,
			Values: values("forbid replace", "allow",
				"write forbid or replace: runs of one schedule have the same indexes, and do not overlap"),
			Note: "A time that comes while a run goes on: `forbid` skips it, `replace` ends the run and begins " +
				"another."},
		{Path: "services.*.cron.missed", Default: api.MissedOnce, Values: values("skip once all", "", ""),
			Note: "Times that passed while nobody could begin a run: `skip` leaves them out, `once` runs once " +
				"for all of them, `all` once for each, one after the other, for the latest 100."},
		{Path: "services.*.cron.keep", Default: "10", Max: api.MaxKeepRuns,
			Note: "Number of ended runs that are remembered, with how they ended. job.keep says how long their " +
				"logs stay."},
	}
}
