package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// SurgeOrdinals is the first ordinal of instances that stand in for others during a rollout. No
// root and no local change uses them.
const SurgeOrdinals = 200_000

// MaxSurge is how many of them a service may have in a cluster.
const MaxSurge = 100

// ReportedRollout is the prefix of the keys of a cluster's rollouts, beside its instances: +
// application.service: RolloutReport.
const ReportedRollout = "rollout/"

// Hold is what people ordered for the rollout of a service.
type Hold struct {
	// Paused: no further instance is updated until it is resumed.
	Paused bool      `json:"paused,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Why    string    `json:"why,omitempty"`
	// Resumed counts how often it was resumed. A failed rollout tries again when it grows.
	Resumed uint64 `json:"resumed,omitempty"`
}

// Phases of a rollout.
const (
	RolloutRolling = "rolling"
	RolloutWaiting = "waiting" // for clusters that come first
	RolloutPaused  = "paused"
	RolloutFailed  = "failed"
	RolloutDone    = "done"
)

// RolloutReport is a cluster's progress in updating a service to another revision.
type RolloutReport struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Revision is the new one, From the previous one.
	Revision uint64 `json:"revision"`
	From     uint64 `json:"from,omitempty"`
	// Program is the api.Service.ProgramID of Revision.
	Program string `json:"program,omitempty"`
	Phase   string `json:"phase" enum:"rolling,waiting,paused,failed,done"`
	// Why says what it waits for, or why it has failed.
	Why string `json:"why,omitempty"`
	// Promised is how many instances are to run, Updated how many of them are up to date and
	// ready, Surge how many run in addition.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	Surge    int `json:"surge,omitempty"`
	// Ready is how many instances answer, of any revision, including those beyond Promised.
	// Views of a rollout count them; a report leaves it out.
	Ready int `json:"ready,omitempty"`
	// Trial: the revision is being tried on Share of the cluster's requests. The trial is at
	// Step of Steps, since Stepped (zero: its instances are not all ready).
	Trial   bool        `json:"trial,omitempty"`
	Share   api.Percent `json:"share,omitempty"`
	Step    int         `json:"step,omitempty"`
	Steps   int         `json:"steps,omitempty"`
	Stepped time.Time   `json:"stepped,omitzero"`
	// Said lists the latest events of hooks, oldest first: what went on although a hook did not
	// answer.
	Said []string `json:"said,omitempty"`
	// New and Old are measurements of both revisions since it began or was resumed, nil for
	// none. They may be 10 s old.
	New   *RolloutSide `json:"new,omitempty"`
	Old   *RolloutSide `json:"old,omitempty"`
	Began time.Time    `json:"began,omitzero"`
	Ended time.Time    `json:"ended,omitzero"`
}

// RolloutSide is how the instances of one revision answered HTTP requests.
type RolloutSide struct {
	// Requests that they got, and those that Failed (InstanceAnswers). For the new revision the
	// newest few thousand count in full.
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	// Exec is how long they work on one, 0 if not known.
	Exec api.Duration `json:"exec,omitempty"`
}

// Clamp limits values to what a cluster can report.
func (s *RolloutSide) Clamp() {
	if s != nil {
		s.Failed, s.Exec = min(s.Failed, s.Requests), max(0, s.Exec)
	}
}

// Key is the service: "<application>.<service>".
func (r *RolloutReport) Key() string { return r.App + "." + r.Service }

// ByRollback is the author of a revision that undoes one whose rollout failed. The names of all
// other authors contain a slash.
const ByRollback = "verge"

// MaxRevisions is how many revisions of an application are stored besides the current one.
const MaxRevisions = 10
