package descriptor

import (
	"cmp"
	"fmt"

	"github.com/verge-edge/verge/api"
)

// fillJob sets what the descriptor of a job is silent about. Its replicas are its indexes.
func fillJob(s *api.Service, given func(field string) bool) {
	j := s.Job
	if j == nil {
		return
	}
	j.Completions, j.Parallelism = cmp.Or(j.Completions, 1), cmp.Or(j.Parallelism, 1)
	if j.Retries == nil {
		j.Retries = new(int)
		*j.Retries = api.DefaultRetries
	}
	if j.Keep == nil {
		j.Keep = new(api.Duration)
		*j.Keep = api.DefaultKeep
	}
	if !given("replicas") {
		s.Replicas = api.Replicas{Min: j.Completions, Max: j.Completions}
	}
	// Its cluster decides what is run again, which it can say of all workers.
	s.Restart.Policy = cmp.Or(s.Restart.Policy, "never")
}

// job checks what of a service means nothing where it runs to completion.
func (v *validator) job(path string, s *api.Service) {
	j := s.Job
	if j == nil {
		return
	}
	in := func(field string) string { return path + "." + field }
	if s.Replicas != (api.Replicas{Min: j.Completions, Max: j.Completions}) {
		v.complain(in("replicas"), fmt.Sprintf("is not the number of instances of a job: that is job.completions, %d",
			j.Completions), "leave it out")
	}
	if s.Runtime == api.Wasm {
		v.complain(in("job"), "is for programs that end, and a function of runtime wasm answers requests",
			"use runtime process or container, or leave job out")
	}
	if s.Restart.Policy != "never" {
		v.complain(in("restart.policy"), "is for services that go on: what of a job is run again is said by job.retries",
			"leave it out")
	}
	for field, given := range map[string]bool{"slo": s.SLO != nil, "idle": s.Idle != nil, "rollout": !s.Rollout.IsZero()} {
		if given {
			v.complain(in(field), "is for services that go on, and this one is a job", "leave it out")
		}
	}
	if j.Parallelism > j.Completions {
		v.warn(v.keyAt(in("job.parallelism")), in("job.parallelism"),
			fmt.Sprintf("is more than the %d completions: no more run at a time", j.Completions))
	}
}
