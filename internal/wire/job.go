package wire

import (
	"slices"
	"strings"
	"time"
)

// JobTry is the progress of one instance of a job.
type JobTry struct {
	// Index of the job that the instance works on, from 0.
	Index int `json:"index"`
	// Run of the job in its cluster that it belongs to, from 1.
	Run uint64 `json:"run,omitempty"`
	// Failed is how often it failed or was lost.
	Failed int `json:"failed,omitempty"`
	// Next is when it may start again; zero: at once.
	Next time.Time `json:"next,omitzero"`
	// Over is why it no longer runs though it has not completed; "" if it may run.
	Over string `json:"over,omitempty"`
	// Completed is when it completed; zero: it has not.
	Completed time.Time `json:"completed,omitzero"`
}

// JobOrder is what an instance of a job learns about it.
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
	// Program and Restarted tell it from other runs: api.Service.ProgramID, and the N of the
	// requested restart.
	Program   string `json:"program,omitempty"`
	Restarted uint64 `json:"restarted,omitempty"`
	// Scheduled is the scheduled time that it is for, zero for none. Asked is who requested it,
	// if anybody did.
	Scheduled time.Time `json:"scheduled,omitzero"`
	Asked     string    `json:"asked,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, "" while it runs. Why says so in words.
	Outcome string `json:"outcome,omitempty" enum:"complete,failed,replaced,stopped"`
	Why     string `json:"why,omitempty"`
	// Completed and Failed count the indexes that had done so when it ended.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// ClusterRun is a run of a job as people see it.
type ClusterRun struct {
	Cluster string `json:"cluster"`
	JobRun
}

// Times are all times from From to To, both inclusive.
type Times struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// CronState is a cluster's progress in a schedule.
type CronState struct {
	// Rule of the api.Cron that the rest is about.
	Rule string `json:"rule"`
	// After is the time up to which all runs have been decided.
	After time.Time `json:"after"`
	// Begun covers every time for which a run has begun. Times later than After occur if the
	// clock was set back.
	Begun []Times `json:"begun,omitempty"`
	// Pending are missed times whose runs are still to begin, oldest first.
	Pending []time.Time `json:"pending,omitempty"`
	// Missed counts times at which nobody could begin a run, Skipped those at which a run was
	// in progress.
	Missed  uint64 `json:"missed,omitempty"`
	Skipped uint64 `json:"skipped,omitempty"`
}

// CronStart is the state with which a cluster begins a schedule.
type CronStart struct {
	// Elsewhere: another cluster has the schedule now, and this one begins no run of it.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Rule and After as in CronState, of the previous cluster; zero: there was none.
	Rule  string    `json:"rule,omitempty"`
	After time.Time `json:"after,omitzero"`
	// Pending as in CronState, including a run whose outcome is not known.
	Pending []time.Time `json:"pending,omitempty"`
	// Restarted is the latest mark that was applied there, N the latest run.
	Restarted uint64 `json:"restarted,omitempty"`
	N         uint64 `json:"n,omitempty"`
	// Epoch counts the assignments of the schedule to clusters. A cluster that sees a higher
	// one begins with this state, once. A lower one is from a root that was restored from a
	// backup.
	Epoch uint64 `json:"epoch,omitempty"`
	// Restored is that of the JobReport which this answers, zero for none. Run is then the
	// latest run that the cluster reported, nil for none.
	Restored time.Time `json:"restored,omitzero"`
	Run      *JobRun   `json:"run,omitempty"`
}

// JobDone tells a cluster that was restored from a backup which ordinals of its share of a job
// without a schedule have completed.
type JobDone struct {
	// Restored is that of the JobReport which this answers.
	Restored time.Time `json:"restored"`
	// Program and Restarted, as in JobRun, of the completed run.
	Program   string `json:"program"`
	Restarted uint64 `json:"restarted,omitempty"`
	Ordinals  []Span `json:"ordinals,omitempty"`
}

// ReportedJob is the prefix of the keys of a cluster's jobs, beside its instances: +
// application.service: JobReport.
const ReportedJob = "job/"

// JobReport is what a cluster reports about the runs of a job.
type JobReport struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Run is the latest one, with N zero for none; Past are those before it, newest last.
	Run  JobRun   `json:"run"`
	Past []JobRun `json:"past,omitempty"`
	// Stopped is the latest stop mark that was applied.
	Stopped uint64 `json:"stopped,omitempty"`
	// Cron is its progress in its schedule, nil without one; Next is when it is due.
	Cron *CronState `json:"cron,omitempty"`
	Next time.Time  `json:"next,omitzero"`
	// Epoch of the CronStart that it began with.
	Epoch uint64 `json:"epoch,omitempty"`
	// Restored is when the cluster was restored from a backup, while it asks what it began
	// after the backup was made; else zero.
	Restored time.Time `json:"restored,omitzero"`
}

// Bounds of a received JobReport.
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

// storable returns a received time in UTC, or zero if no clock can show it. Late in the year
// 9999 of one zone it is the year 10000 in another, which JSON cannot express.
func storable(at time.Time) time.Time {
	at = at.UTC()
	if at.Year() < 1970 || at.Year() > 9998 {
		return time.Time{}
	}
	return at
}

func (r *JobRun) clamp() {
	r.N, r.Restarted = min(r.N, maxRuns), min(r.Restarted, maxRuns) // a successor continues the count
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

// Runs returns the runs of the report as people see them, newest first.
func (r *JobReport) Runs(cluster string) (out []ClusterRun) {
	if r.Run.N > 0 && !r.Run.Began.IsZero() {
		out = append(out, ClusterRun{cluster, r.Run})
	}
	for _, run := range slices.Backward(r.Past) {
		out = append(out, ClusterRun{cluster, run})
	}
	return out
}

// NoJob returns the problem that a service is no job.
func NoJob(name string) *Problem {
	return Problemf(422, "no-job", "verge get jobs lists those there are; verge restart "+name+" starts a service again", "it is no job", "%s goes on: its descriptor says neither job nor cron", name)
}
