package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// SurgeOrdinals is the first ordinal of instances that stand in for others while a
// service is brought to another revision. No root gives them, and no local change.
const SurgeOrdinals = 200_000

// MaxSurge is how many of them there are at most of a service in a cluster.
const MaxSurge = 100

// ReportedRollout begins the keys below which a cluster reports its rollouts, beside its
// instances: + application.service: RolloutReport.
const ReportedRollout = "rollout/"

// Hold is what people said about the rollout of a service.
type Hold struct {
	// Paused: nothing more is updated until it is resumed.
	Paused bool      `json:"paused,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Why    string    `json:"why,omitempty"`
	// Resumed counts how often it was resumed. A rollout that has failed tries again
	// when it grows.
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

// RolloutReport says how far a cluster is in bringing a service to another revision.
type RolloutReport struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Revision that it is brought to, From the one before.
	Revision uint64 `json:"revision"`
	From     uint64 `json:"from,omitempty"`
	// Program is the api.Service.ProgramID of Revision.
	Program string `json:"program,omitempty"`
	Phase   string `json:"phase" enum:"rolling,waiting,paused,failed,done"`
	// Why says what it waits for, or why it has failed.
	Why string `json:"why,omitempty"`
	// Promised is how many instances there are to be, Updated how many of them are up to
	// date and ready, Surge how many run beyond them.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	Surge    int `json:"surge,omitempty"`
	// Ready is how many instances answer, of whichever revision, those beyond Promised among
	// them. Who shows a rollout counts them; a report leaves it out.
	Ready int `json:"ready,omitempty"`
	// Trial: the revision is being tried on Share of the requests that come to the cluster.
	// Step of Steps of that goes on, since Stepped (zero: its instances are not all ready).
	Trial   bool        `json:"trial,omitempty"`
	Share   api.Percent `json:"share,omitempty"`
	Step    int         `json:"step,omitempty"`
	Steps   int         `json:"steps,omitempty"`
	Stepped time.Time   `json:"stepped,omitzero"`
	// Said are the last things that hooks had to do with it, oldest first: what was done without
	// the word of one that did not answer.
	Said []string `json:"said,omitempty"`
	// New and Old are what was measured of both revisions since it began or was resumed; nil:
	// nothing. It may be 10 s old.
	New   *RolloutSide `json:"new,omitempty"`
	Old   *RolloutSide `json:"old,omitempty"`
	Began time.Time    `json:"began,omitzero"`
	Ended time.Time    `json:"ended,omitzero"`
}

// RolloutSide is how the instances of one revision have answered requests over HTTP.
type RolloutSide struct {
	// Requests that they were given, the newest few thousand of the new revision counting in
	// full, and those of them that Failed (InstanceAnswers).
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	// Exec is how long they work on one, 0: not known.
	Exec api.Duration `json:"exec,omitempty"`
}

// Clamp cuts off what no cluster says.
func (s *RolloutSide) Clamp() {
	if s != nil {
		s.Failed, s.Exec = min(s.Failed, s.Requests), max(0, s.Exec)
	}
}

// Key is the service: "<application>.<service>".
func (r *RolloutReport) Key() string { return r.App + "." + r.Service }

// RolloutView is how far an application is in being brought to its revision.
type RolloutView struct {
	Name     string           `json:"name"`
	Revision uint64           `json:"revision"`
	Services []ServiceRollout `json:"services"`
	// Source says so ("root", "cluster/edge").
	Source string `json:"source"`
}

// ServiceRollout is one service of a RolloutView.
type ServiceRollout struct {
	Name string `json:"name"`
	// Phase of all its clusters together: the worst of them.
	Phase string `json:"phase" enum:"rolling,waiting,paused,failed,done"`
	Why   string `json:"why,omitempty"`
	// Promised, Updated and Ready as in RolloutReport, of all clusters.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	Ready    int `json:"ready"`
	// Hold is what people said about it; nil: nothing.
	Hold *Hold `json:"hold,omitempty"`
	// Clusters that have a part in it.
	Clusters []RolloutReport `json:"clusters"`
}

// RolloutRequest is what people say about a rollout.
type RolloutRequest struct {
	Service string `json:"service,omitempty" maxLength:"63" doc:"only this service"`
	Reason  string `json:"reason,omitempty" maxLength:"200" doc:"why, for those who come across it"`
	// To is the revision that an undo brings back.
	To uint64 `json:"to,omitempty" doc:"of an undo: the revision to bring back; the one before if it is left out"`
}

// AppRevision is what an application was.
type AppRevision struct {
	V        int    `json:"v,omitempty"`
	App      string `json:"app"`
	Revision uint64 `json:"revision"`
	// By whom it was applied, When, and Why: "undo to revision 3".
	By   string    `json:"by,omitempty"`
	When time.Time `json:"when"`
	Why  string    `json:"why,omitempty"`
	// Changed says in words what it changed: "web: image, env.A".
	Changed []string `json:"changed,omitempty"`
	// Held says of each service whether it held as this revision: ready as applied, and not
	// failing when the next revision came. Nil: nobody noted it.
	Held map[string]bool `json:"held,omitempty"`
	// Current: it is the one that counts.
	Current bool `json:"current,omitempty"`
	// Descriptor is its text; left out of lists.
	Descriptor string `json:"descriptor,omitempty"`
}

// HasHeld says whether the revision held, or one service of it. One of which nobody noted
// it may have.
func (r *AppRevision) HasHeld(service string) bool {
	if r.Held == nil || service != "" {
		return r.Held == nil || r.Held[service]
	}
	for _, held := range r.Held {
		if !held {
			return false
		}
	}
	return true
}

// ByRollback is who has made a revision that undoes one of which the rollout failed; all
// others who make one have a slash in their names.
const ByRollback = "verge"

// MaxRevisions of an application are kept besides the current one.
const MaxRevisions = 10

// WorstPhase is the one of two phases of which people must know first.
func WorstPhase(a, b string) string {
	for _, p := range []string{RolloutFailed, RolloutPaused, RolloutRolling, RolloutWaiting} {
		if a == p || b == p {
			return p
		}
	}
	return RolloutDone
}
