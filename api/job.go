package api

import (
	"cmp"
	"fmt"
)

// Job says that a service runs to completion: each of its instances has an index from 0
// to Completions - 1, and is done when its program has ended with exit code 0. One index
// is run at least once: one that ended otherwise, or of which nobody knows how it ended,
// is run again.
type Job struct {
	// Completions are the indexes that are to complete (default 1), Parallelism how many
	// of them run at a time (default 1).
	Completions int `json:"completions,omitempty"`
	Parallelism int `json:"parallelism,omitempty"`
	// Retries of each index, before it has failed for good. Nil: 6.
	Retries *int `json:"retries,omitempty"`
	// Deadline of the whole job from its beginning; 0: none.
	Deadline Duration `json:"deadline,omitempty"`
	// Keep is how long what has ended can be looked at on its worker: its logs. Nil: 24h.
	Keep *Duration `json:"keep,omitempty"`
	// Suspend starts nothing more; what runs goes on.
	Suspend bool `json:"suspend,omitempty"`
}

// Defaults of a job where the descriptor is silent; that of retries is the one of
// Kubernetes.
const (
	DefaultRetries          = 6
	DefaultKeep    Duration = 24 * 3600e9
)

// fillJob sets what the descriptor of a job is silent about. Its replicas are its indexes.
func fillJob(s *Service, given func(field string) bool) {
	j := s.Job
	if j == nil {
		return
	}
	j.Completions, j.Parallelism = cmp.Or(j.Completions, 1), cmp.Or(j.Parallelism, 1)
	if j.Retries == nil {
		j.Retries = new(int)
		*j.Retries = DefaultRetries
	}
	if j.Keep == nil {
		j.Keep = new(Duration)
		*j.Keep = DefaultKeep
	}
	if !given("replicas") {
		s.Replicas = Replicas{j.Completions, j.Completions}
	}
	// Its cluster decides what is run again, which it can say of all workers.
	s.Restart.Policy = cmp.Or(s.Restart.Policy, "never")
}

// job checks what of a service means nothing where it runs to completion.
func (v *validator) job(path string, s *Service) {
	j := s.Job
	if j == nil {
		return
	}
	in := func(field string) string { return path + "." + field }
	if s.Replicas != (Replicas{j.Completions, j.Completions}) {
		v.complain(in("replicas"), fmt.Sprintf("is not the number of instances of a job: that is job.completions, %d", j.Completions), "leave it out")
	}
	if s.Runtime == Wasm {
		v.complain(in("job"), "is for programs that end, and a function of runtime wasm answers requests", "use runtime process or container, or leave job out")
	}
	if s.Restart.Policy != "never" {
		v.complain(in("restart.policy"), "is for services that go on: what of a job is run again is said by job.retries", "leave it out")
	}
	for field, given := range map[string]bool{"slo": s.SLO != nil, "idle": s.Idle != nil, "rollout": !s.Rollout.IsZero()} {
		if given {
			v.complain(in(field), "is for services that go on, and this one is a job", "leave it out")
		}
	}
	if j.Parallelism > j.Completions {
		v.warn(v.keyAt(in("job.parallelism")), in("job.parallelism"), fmt.Sprintf("is more than the %d completions: no more run at a time", j.Completions))
	}
}

// jobRows are the fields of services that end.
func jobRows() []Verdict {
	return []Verdict{
		{Path: "services.*.job", Note: "The service runs to completion (see [jobs](concepts.md#jobs)). An instance that ended with exit code 0 has completed; any other is run again, after the delays of restart, which double. Each index runs at least once. `{}` takes the defaults."},
		{Path: "services.*.job.completions", Default: "1", Min: 1, Max: MaxReplicas,
			Note: "Indexes that are to complete, from 0 on. An instance finds its own in VERGE_JOB_INDEX, and their number in VERGE_JOB_COMPLETIONS."},
		{Path: "services.*.job.parallelism", Default: "1", Min: 1, Max: MaxReplicas,
			Note: "How many of them run at a time, in all clusters together."},
		{Path: "services.*.job.retries", Default: "6", Max: 1000,
			Note: "How often an index is run again that failed, or whose worker was lost; then it has failed. The others go on, and when they have ended the job has failed."},
		{Path: "services.*.job.deadline", Min: 1e9, Max: int64(MaxDuration),
			Note: "Time for the whole job, from when a cluster has it. What has not completed by then is ended, and the job has failed."},
		{Path: "services.*.job.keep", Default: "24h", Max: int64(MaxDuration),
			Note: "How long the logs of what has ended stay on its worker."},
		{Path: "services.*.job.suspend", Default: "false", Note: "Nothing more of it is started; what runs goes on. The deadline goes on as well. With a schedule: no run begins by it, and what was begun is completed."},
	}
}
