package wire

import (
	"slices"
	"strings"
	"time"
)

// JobTry is how far one instance of a job is.
type JobTry struct {
	// Index of the job that the instance works on, from 0.
	Index int `json:"index"`
	// Run of the job in its cluster that it belongs to, from 1.
	Run uint64 `json:"run,omitempty"`
	// Failed is how often it ended otherwise than well, or was lost.
	Failed int `json:"failed,omitempty"`
	// Next is when it may start again; zero: at once.
	Next time.Time `json:"next,omitzero"`
	// Over is why it does not run any more though it has not completed; "" if it may.
	Over string `json:"over,omitempty"`
	// Completed is when it had; zero: it has not.
	Completed time.Time `json:"completed,omitzero"`
}

// JobOrder is what an instance of a job is told of it.
type JobOrder struct {
	Index       int    `json:"index"`
	Completions int    `json:"completions"`
	Run         uint64 `json:"run,omitempty"`
	// Scheduled as in JobRun.
	Scheduled time.Time `json:"scheduled,omitzero"`
}

// Outcomes of a job.
const (
	JobComplete = "complete"
	JobFailed   = "failed"
	JobReplaced = "replaced" // by another run before it ended
	JobStopped  = "stopped"  // by somebody
)

// JobRun is one run of a job in one cluster.
type JobRun struct {
	// N counts the runs in the cluster, from 1.
	N uint64 `json:"n"`
	// Program and Restarted say what made it a run of its own: api.Service.ProgramID, and
	// the N of the restart that was asked for.
	Program   string `json:"program,omitempty"`
	Restarted uint64 `json:"restarted,omitempty"`
	// Scheduled is the time of its schedule that it is for, zero for none. Asked says who
	// wanted it, where somebody did.
	Scheduled time.Time `json:"scheduled,omitzero"`
	Asked     string    `json:"asked,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, "" while it goes on, and Why in words.
	Outcome string `json:"outcome,omitempty" enum:"complete,failed,replaced,stopped"`
	Why     string `json:"why,omitempty"`
	// Completed and Failed are how many indexes had when it ended.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// JobView is how far a job is.
type JobView struct {
	Completions int `json:"completions"`
	Completed   int `json:"completed"`
	// Failed are the indexes that are not run again, Active those that run or start.
	Failed int `json:"failed,omitempty"`
	Active int `json:"active,omitempty"`
	// Outcome is JobComplete or JobFailed, "" while it goes on. Why in words.
	Outcome string `json:"outcome,omitempty" enum:"complete,failed,replaced,stopped"`
	Why     string `json:"why,omitempty"`
	// Suspended: nothing more is started.
	Suspended bool `json:"suspended,omitempty"`
	// Run counts the runs in their cluster; of one in several clusters it is zero.
	Run uint64 `json:"run,omitempty"`
	// Schedule, its Zone and the Next time, of a job that has them. Missed is how many
	// times were missed, Skipped how many came while a run went on.
	Schedule string    `json:"schedule,omitempty"`
	Zone     string    `json:"zone,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	Missed   uint64    `json:"missed,omitempty"`
	Skipped  uint64    `json:"skipped,omitempty"`
	// Runs of each cluster, the newest first; the first of them may go on.
	Runs []ClusterRun `json:"runs,omitempty"`
}

// ClusterRun is a run of a job as people see it.
type ClusterRun struct {
	Cluster string `json:"cluster"`
	JobRun
}

// Times are all from From to To, both included.
type Times struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// CronState is how far a cluster is with a schedule.
type CronState struct {
	// Rule is that of api.Cron that the rest is about.
	Rule string `json:"rule"`
	// After is up to when it has been decided what runs.
	After time.Time `json:"after"`
	// Begun covers every time of which a run was begun, also of those after After, which
	// there are if the clock was set back.
	Begun []Times `json:"begun,omitempty"`
	// Pending are times that were missed and whose runs are to begin, the oldest first.
	Pending []time.Time `json:"pending,omitempty"`
	// Missed counts the times that passed while nobody could begin a run, Skipped those
	// that came while a run went on.
	Missed  uint64 `json:"missed,omitempty"`
	Skipped uint64 `json:"skipped,omitempty"`
}

// CronStart is with which state a cluster begins that is given a schedule.
type CronStart struct {
	// Elsewhere: another cluster has the schedule now, and this one begins no run of it.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Rule and After as in CronState, of the cluster that had it before; zero: there was none.
	Rule  string    `json:"rule,omitempty"`
	After time.Time `json:"after,omitzero"`
	// Pending as in CronState, with a run of which nobody knows how it ended.
	Pending []time.Time `json:"pending,omitempty"`
	// Restarted is the latest mark that was heeded there, N its latest run.
	Restarted uint64 `json:"restarted,omitempty"`
	N         uint64 `json:"n,omitempty"`
	// Epoch counts the clusters that were given the schedule: with a higher one than it had
	// a cluster begins with what is said here, once. A lower one is of a root that was
	// restored from a backup.
	Epoch uint64 `json:"epoch,omitempty"`
	// Restored is that of the JobReport which this answers, zero for none: Run is then the
	// latest run that the cluster was heard of, nil for none.
	Restored time.Time `json:"restored,omitzero"`
	Run      *JobRun   `json:"run,omitempty"`
}

// JobDone is what a root says of a job without a schedule to a cluster that was restored from
// a backup: which ordinals of its share have completed.
type JobDone struct {
	// Restored is that of the JobReport which this answers.
	Restored time.Time `json:"restored"`
	// Program and Restarted, as in JobRun, are of what has completed.
	Program   string `json:"program"`
	Restarted uint64 `json:"restarted,omitempty"`
	Ordinals  []Span `json:"ordinals,omitempty"`
}

// ReportedJob begins the keys below which a cluster reports its jobs, beside its
// instances: + application.service: JobReport.
const ReportedJob = "job/"

// JobReport is what a cluster says of the runs of a job.
type JobReport struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Run is the latest one, with N zero for none; Past those before it, newest last.
	Run  JobRun   `json:"run"`
	Past []JobRun `json:"past,omitempty"`
	// Stopped is the latest mark of its end that was heeded.
	Stopped uint64 `json:"stopped,omitempty"`
	// Cron is how far it is with its schedule, nil without one; Next when it is due next.
	Cron *CronState `json:"cron,omitempty"`
	Next time.Time  `json:"next,omitzero"`
	// Epoch is that of the CronStart that it began with.
	Epoch uint64 `json:"epoch,omitempty"`
	// Restored is when the cluster was restored from a backup, as long as it asks what it
	// has begun since that was made; else zero.
	Restored time.Time `json:"restored,omitzero"`
}

// Bounds of a JobReport that was sent.
const (
	maxPastRuns = 100
	maxCronList = 200
	maxRunWords = 2 << 10
	maxRuns     = 1 << 48
)

// Clamp cuts off what no cluster says.
func (r *JobReport) Clamp() {
	r.Past = r.Past[max(0, len(r.Past)-maxPastRuns):]
	for k := range r.Past {
		r.Past[k].clamp()
	}
	r.Run.clamp()
	r.Stopped = min(r.Stopped, maxRuns)
	if c := r.Cron; c != nil {
		c.Begun, c.Pending = c.Begun[:min(len(c.Begun), maxCronList)], c.Pending[:min(len(c.Pending), maxCronList)]
		c.Rule, c.After = shorten(c.Rule), storable(c.After)
		for k, b := range c.Begun {
			c.Begun[k] = Times{From: storable(b.From), To: storable(b.To)}
		}
		c.Begun = slices.DeleteFunc(c.Begun, func(b Times) bool { return b.From.IsZero() || b.To.IsZero() })
		for k, at := range c.Pending {
			c.Pending[k] = storable(at)
		}
		c.Pending = slices.DeleteFunc(c.Pending, time.Time.IsZero)
	}
	r.Next, r.Restored = storable(r.Next), storable(r.Restored)
}

// storable is a time of somebody else in UTC, or zero where no clock shows it. One that is
// late in the year 9999 of its own zone is in the year 10000 of another one, and there it
// cannot be written as JSON.
func storable(at time.Time) time.Time {
	at = at.UTC()
	if at.Year() < 1970 || at.Year() > 9998 {
		return time.Time{}
	}
	return at
}

func (r *JobRun) clamp() {
	r.N, r.Restarted = min(r.N, maxRuns), min(r.Restarted, maxRuns) // who takes it over counts on
	r.Scheduled, r.Began, r.Ended = storable(r.Scheduled), storable(r.Began), storable(r.Ended)
	r.Program, r.Outcome, r.Why, r.Asked = shorten(r.Program), shorten(r.Outcome), shorten(r.Why), shorten(r.Asked)
	r.Completed, r.Failed = max(0, r.Completed), max(0, r.Failed)
}

func shorten(s string) string {
	if len(s) <= maxRunWords {
		return s
	}
	return strings.ToValidUTF8(s[:maxRunWords], "")
}

// Key is the service: "<application>.<service>".
func (r *JobReport) Key() string { return r.App + "." + r.Service }

// Runs of the report as people see them, the newest first.
func (r *JobReport) Runs(cluster string) (out []ClusterRun) {
	if r.Run.N > 0 && !r.Run.Began.IsZero() {
		out = append(out, ClusterRun{cluster, r.Run})
	}
	for _, run := range slices.Backward(r.Past) {
		out = append(out, ClusterRun{cluster, run})
	}
	return out
}

// NoJob says that a service is none.
func NoJob(name string) *Problem {
	return Problemf(422, "no-job", "verge get jobs lists those there are; verge restart "+name+" starts a service again", "it is no job", "%s goes on: its descriptor says neither job nor cron", name)
}
