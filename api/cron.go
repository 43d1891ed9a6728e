package api

import "cmp"

// Cron says when a job runs: each time that is due is a run of all its indexes. Its cluster
// begins the runs by itself, also while the root is away.
type Cron struct {
	// Schedule are the five fields, Zone the name of the time zone that they are in (default UTC).
	Schedule string `json:"schedule"`
	Zone     string `json:"zone,omitempty"`
	// Concurrency says what becomes of a time that comes while a run goes on.
	Concurrency string `json:"concurrency,omitempty"`
	// Missed says what becomes of times at which nobody could begin a run.
	Missed string `json:"missed,omitempty"`
	// Keep is how many runs that have ended are remembered. Nil: 10.
	Keep *int `json:"keep,omitempty"`
}

// What becomes of a time that comes while a run goes on: it is skipped, or the run is ended
// and another begins.
const (
	CronForbid  = "forbid"
	CronReplace = "replace"
)

// What becomes of times that were missed: nothing, one run for all of them, or one each.
const (
	MissedSkip = "skip"
	MissedOnce = "once"
	MissedAll  = "all"
)

// DefaultKeepRuns is how many runs are remembered where the descriptor is silent, and
// MaxKeepRuns how many there may be.
const (
	DefaultKeepRuns = 10
	MaxKeepRuns     = 50
)

// Kept is how many runs that have ended are remembered.
func (c *Cron) Kept() int {
	if c == nil || c.Keep == nil {
		return DefaultKeepRuns
	}
	return *c.Keep
}

// Rule is what the times follow from: with another one they are other times.
func (c *Cron) Rule() string { return c.Schedule + "|" + c.Zone }

// fillCron makes a job of what has a schedule.
func fillCron(s *Service) {
	c := s.Cron
	if c == nil {
		return
	}
	if s.Job == nil {
		s.Job = &Job{}
	}
	c.Zone = cmp.Or(c.Zone, "UTC")
	c.Concurrency, c.Missed = cmp.Or(c.Concurrency, CronForbid), cmp.Or(c.Missed, MissedOnce)
	if c.Keep == nil {
		c.Keep = new(int)
		*c.Keep = DefaultKeepRuns
	}
}

// cron checks when a job is to run.
func (v *validator) cron(path string, s *Service) {
	c := s.Cron
	if c == nil {
		return
	}
	if _, err := zoneOf(c.Zone); err != nil {
		v.complain(path+".cron.zone", quote(c.Zone)+" "+err.Error(), "write a name of the IANA database, such as Europe/Berlin, or leave it out for UTC")
		return
	}
	if _, err := ParseSchedule(c.Schedule, c.Zone); err != nil {
		v.complain(path+".cron.schedule", quote(c.Schedule)+" is not a schedule: "+err.Error(), `write five fields, such as "30 2 * * 1-5" for half past two from Monday to Friday`)
	}
}

// cronRows are the fields of schedules.
func cronRows() []Verdict {
	return []Verdict{
		{Path: "services.*.cron", Note: "The job runs by a schedule (see [schedules](concepts.md#schedules)), and not when it is applied. Without `job` it is a job with the defaults."},
		{Path: "services.*.cron.schedule", Required: true, Note: "Five fields of cron: minute, hour, day of the month, month, day of the week. Names (`mon`, `jan`), lists, ranges and steps may be used; where both days are restricted either counts."},
		{Path: "services.*.cron.zone", Default: "UTC", Note: "Time zone of the schedule, by its name in the IANA database (`Europe/Berlin`)."},
		{Path: "services.*.cron.concurrency", Default: CronForbid, Values: values("forbid replace", "allow", "write forbid or replace: runs of one schedule have the same indexes, and do not overlap"),
			Note: "What becomes of a time that comes while a run goes on: `forbid` skips it, `replace` ends the run and begins another."},
		{Path: "services.*.cron.missed", Default: MissedOnce, Values: values("skip once all", "", ""),
			Note: "What becomes of times that passed while nobody could begin a run: `skip` leaves them out, `once` runs once for all of them, `all` runs once for each, one after the other, for the latest 100."},
		{Path: "services.*.cron.keep", Default: "10", Max: MaxKeepRuns, Note: "How many runs that have ended are remembered, with how they ended. For how long their logs stay says job.keep."},
	}
}
