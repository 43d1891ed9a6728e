package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

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
	Runs []wire.ClusterRun `json:"runs,omitempty"`
}
