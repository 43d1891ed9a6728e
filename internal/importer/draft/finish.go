package draft

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Weight is the text of a service of which others may have the same, in bytes.
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

// NoReplicas are no replicas at all, which is not the same as silence.
var NoReplicas = api.Replicas{Min: -1, Max: -1}

// Finish gives a service what Verge wants of each: replicas, a limit of memory, and reservations
// that are not more than the limits. It says whether the limit is ours.
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

// LimitNote says once for which services the limit is ours.
func LimitNote(r *report.Report, d *source.Document, services []string, o Options) {
	if len(services) > 0 {
		r.At(report.Said, d, nil, "states no memory limit for %s: each instance may use %s (--memory-limit)",
			report.List(services), o.MemoryLimit)
	}
}

// AsJob makes a service one that runs to completion, with an instance for each completion.
func AsJob(out *api.Service, j *api.Job) {
	out.Job = j
	n := max(j.Completions, 1)
	out.Replicas = api.Replicas{Min: n, Max: n}
}
