package api

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

// Retained is how many runs that have ended are remembered.
func (c *Cron) Retained() int {
	if c == nil || c.Keep == nil {
		return DefaultKeepRuns
	}
	return *c.Keep
}

// Rule is what the times follow from: with another one they are other times.
func (c *Cron) Rule() string { return c.Schedule + "|" + c.Zone }
