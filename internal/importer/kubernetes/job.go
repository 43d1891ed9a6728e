package kubernetes

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

func (g *group) job(w *workload, out *api.Service) {
	o, s := w.object, &w.spec
	at := func(field string) []string { return source.Extend(w.base, field) }
	j := &api.Job{Suspend: s.Suspend}
	counts := func(field string, v *int32, least int32) int {
		if v == nil {
			return 0
		}
		if *v < least || *v > api.MaxReplicas {
			g.refuse(o, at(field), "cannot be expressed: %d is not from %d to %d", *v, least, api.MaxReplicas)
			return 0
		}
		return int(*v)
	}
	j.Completions, j.Parallelism = counts("completions", s.Completions, 1), counts("parallelism", s.Parallelism, 0)
	if s.Parallelism != nil && *s.Parallelism == 0 {
		j.Suspend = true
		g.said(o, at("parallelism"), "nothing of it runs: it is suspended")
	}
	if s.Completions == nil && j.Parallelism > 1 {
		j.Completions = j.Parallelism
		g.lost(o, at("parallelism"),
			"pods that share a work queue, where one ends all, cannot be expressed: each of %d has to complete",
			j.Parallelism)
	}
	if j.Parallelism > max(j.Completions, 1) {
		j.Parallelism = j.Completions
	}
	limit, field := s.BackoffLimit, "backoffLimit"
	if s.BackoffLimitPerIndex != nil {
		limit, field = s.BackoffLimitPerIndex, "backoffLimitPerIndex"
	} else if limit != nil && j.Completions > 1 {
		g.said(o, at(field), "counts for each index by itself (job.retries), and not for all together")
	}
	if limit != nil {
		n := int(max(min(*limit, 1000), 0))
		if int(*limit) != n {
			g.lost(o, at(field), "is %d: retries are from 0 to 1000", n)
		}
		j.Retries = &n
	}
	if d := s.ActiveDeadlineSeconds; d != nil {
		j.Deadline = draft.Clamp(g.report, o.Doc, at("activeDeadlineSeconds"), seconds(*d), time.Second,
			time.Duration(api.MaxDuration))
	}
	if d := s.TTLSecondsAfterFinished; d != nil {
		keep := draft.Clamp(g.report, o.Doc, at("ttlSecondsAfterFinished"), seconds(int64(*d)),
			0, time.Duration(api.MaxDuration))
		j.Keep = &keep
		g.said(o, at("ttlSecondsAfterFinished"), "is how long its logs are kept; the application stays until it is deleted")
	}
	switch p := w.pod.RestartPolicy; p {
	case k8s.RestartPolicyNever, k8s.RestartPolicyOnFailure:
	default:
		g.refuse(o, source.Extend(w.path, "restartPolicy"), "Kubernetes would refuse it: that of a Job is Never or OnFailure")
	}
	g.asJob(out, j)
	if s.CompletionMode == "Indexed" {
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env["JOB_COMPLETION_INDEX"] = "${VERGE_JOB_INDEX}"
	}
}

// asJob makes a service run to completion.
func (g *group) asJob(out *api.Service, j *api.Job) { draft.AsJob(out, j) }

// seconds converts to a duration without overflow.
func seconds(s int64) time.Duration {
	return time.Duration(min(s, int64(api.MaxDuration)/int64(time.Second)+1)) * time.Second
}

// pod converts a bare Pod, which runs to completion unless it is always restarted.
func (g *group) pod(w *workload, out *api.Service) {
	o, at := w.object, source.Extend(w.path, "restartPolicy")
	retries := 0
	switch p := w.pod.RestartPolicy; p {
	case "", k8s.RestartPolicyAlways:
		return
	case k8s.RestartPolicyOnFailure:
		retries = 1000
	}
	draft.AsJob(out, &api.Job{Retries: &retries})
	g.said(o, at, "it runs to completion: it is a job, and is run again %d times at most", retries)
}
