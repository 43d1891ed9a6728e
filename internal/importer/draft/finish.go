package draft

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Weight is the size in bytes of the texts of a service that may be shared with others.
func Weight(s *api.Service) int {
	n := 0
	for k, v := range s.Env {
		n += len(k) + len(v)
	}
	for at, f := range s.Files {
		n += len(at) + len(f.Content)
	}
	for _, words := range [][]string{s.Command, s.Args} {
		for _, w := range words {
			n += len(w)
		}
	}
	return n
}

// NoReplicas are zero replicas, as opposed to an unset number.
var NoReplicas = api.Replicas{Min: -1, Max: -1}

// Finish sets what Verge requires of each service: replicas, a memory limit, and reservations
// within the limits. It says whether it chose the limit.
func Finish(s *api.Service, o Options) (ours bool) {
	switch s.Replicas {
	case api.Replicas{}:
		s.Replicas = api.Replicas{Min: 1, Max: 1}
	case NoReplicas:
		s.Replicas = api.Replicas{}
	}
	if s.Limits.Memory == 0 {
		s.Limits.Memory, ours = max(o.MemoryLimit, s.Resources.Memory), true
	}
	if s.Resources.Memory == 0 && s.Limits.Memory < api.DefaultMemory {
		s.Resources.Memory = s.Limits.Memory
	}
	if s.Limits.CPU != 0 && s.Resources.CPU == 0 && s.Limits.CPU < api.DefaultCPU {
		s.Resources.CPU = s.Limits.CPU
	}
	return ours
}

// LimitNote notes once for which services Finish chose the limit.
func LimitNote(r *report.Report, d *source.Document, services []string, o Options) {
	if len(services) > 0 {
		r.At(report.Said, d, nil, "states no memory limit for %s: each instance may use %s (--memory-limit)",
			report.List(services), o.MemoryLimit)
	}
}

// AsJob makes a service run to completion, with one instance per completion.
func AsJob(out *api.Service, j *api.Job) {
	out.Job = j
	n := max(j.Completions, 1)
	out.Replicas = api.Replicas{Min: n, Max: n}
}
