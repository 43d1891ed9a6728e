package descriptor

import (
	"cmp"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// fillCron makes a job of what has a schedule.
func fillCron(s *api.Service) {
	c := s.Cron
	if c == nil {
		return
	}
	if s.Job == nil {
		s.Job = &api.Job{}
	}
	c.Zone = cmp.Or(c.Zone, "UTC")
	c.Concurrency, c.Missed = cmp.Or(c.Concurrency, api.CronForbid), cmp.Or(c.Missed, api.MissedOnce)
	if c.Keep == nil {
		c.Keep = new(int)
		*c.Keep = api.DefaultKeepRuns
	}
}

// cron checks when a job is to run.
func (v *validator) cron(path string, s *api.Service) {
	c := s.Cron
	if c == nil {
		return
	}
	if _, err := api.ParseZone(c.Zone); err != nil {
		v.complain(path+".cron.zone", words.Quote(c.Zone)+" "+err.Error(),
			"write a name of the IANA database, such as Europe/Berlin, or leave it out for UTC")
		return
	}
	if _, err := api.ParseSchedule(c.Schedule, c.Zone); err != nil {
		v.complain(path+".cron.schedule", words.Quote(c.Schedule)+" is not a schedule: "+err.Error(),
			`write five fields, such as "30 2 * * 1-5" for half past two from Monday to Friday`)
	}
}
