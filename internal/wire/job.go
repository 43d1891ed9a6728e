package wire

import "time"

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
}

// Outcomes of a job.
const (
	JobComplete = "complete"
	JobFailed   = "failed"
	JobReplaced = "replaced" // by another run before it ended
)

// JobRun is one run of a job in one cluster.
type JobRun struct {
	// N counts the runs in the cluster, from 1.
	N uint64 `json:"n"`
	// Program and Restarted say what made it a run of its own: api.Service.ProgramID, and
	// the N of the restart that was asked for.
	Program   string    `json:"program,omitempty"`
	Restarted uint64    `json:"restarted,omitempty"`
	Began     time.Time `json:"began"`
	Ended     time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, "" while it goes on, and Why in words.
	Outcome string `json:"outcome,omitempty"`
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
	Outcome string `json:"outcome,omitempty"`
	Why     string `json:"why,omitempty"`
	// Suspended: nothing more is started.
	Suspended bool `json:"suspended,omitempty"`
}
