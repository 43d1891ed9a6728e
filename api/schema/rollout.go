package schema

import (
	"github.com/verge-edge/verge/api"
)

func rolloutRows() []FieldSpec {
	in := func(field string) string { return "services.*.rollout" + field }
	return []FieldSpec{
		{Path: in(""),
			Note: "How a new program is rolled out. First some instances of the new revision start beside the " +
				"others; when they are ready, as many others are updated at a time; at the end the surplus goes. " +
				"A failure stops the rollout: verge rollout status says why."},
		{Path: in(".max_surge"), Default: "25%, rounded up; 0 where max_unavailable is given or instances have named volumes",
			Note: "Instances beyond the promised number that run meanwhile, as a number or a share. They need " +
				"room; at most 100 in a cluster."},
		{Path: in(".max_unavailable"), Default: "0; 1 where max_surge is 0",
			Note: "Promised instances that may be missing meanwhile, as a number or a share, rounded down. For " +
				"clusters without room for a surge, and for programs of which only so many may run."},
		{Path: in(".min_ready"),
			Default: api.DefaultMinReady.String() + " if omitted; as " + api.DefaultObserved.String() + " with slo",
			Max:     3600e9,
			Note: "How long updated instances must be ready before the next are updated. With slo, an updated " +
				"instance that takes longer for a request than that, and longer than those of the revision " +
				"before, holds the rollout, and after 10s fails it."},
		{Path: in(".progress_deadline"), Default: api.DefaultProgressDeadline.String() + " if omitted", Min: 1e9,
			Max:  24 * 3600e9,
			Note: "Longest time without progress before the rollout fails. Pauses do not count."},
		{Path: in(".max_errors"), Default: api.DefaultMaxErrors.String() + " if omitted",
			Note: "Share of HTTP requests to updated instances that may fail: answers 5xx (except 501 and 505) " +
				"and connections that break before one. The rollout fails when it is certain that more do, and " +
				"more than with the revision before: at least 5, and the 99% intervals (Wilson) of the two " +
				"shares do not overlap. 100%: not checked."},
		{Path: in(".canary"), Max: api.MaxCanarySteps,
			Note: "Steps that each give a larger share of the requests to the new revision, before any promised " +
				"instance is touched. The new revision runs beside the others on instances in proportion to its " +
				"share, which max_surge must allow. A failure stops it, and all requests go back to the others " +
				"at once. Each request to a cluster is drawn by itself: a client meets both revisions. Clusters " +
				"come one after the other. For services without HTTP it is a share of the connections, and " +
				"errors are not seen. By default there are no steps."},
		{Path: in(".canary[].share"), Required: true, Note: "Share of the requests, more than in the step before."},
		{Path: in(".canary[].for"), Default: api.DefaultCanaryStep.String() + " if omitted", Min: 1e9,
			Max:  7 * 24 * 3600e9,
			Note: "Minimum length of the step, once its instances have been ready for min_ready."},
		{Path: in(".canary[].requests"), Default: "0 if omitted", Max: 1e9,
			Note: "HTTP requests that the new revision must also have answered in the step. If fewer come, " +
				"progress_deadline counts from the end of for."},
		{Path: in(".on_failure"), Default: "stop if omitted", Values: values("stop "+api.RollBack, "", ""),
			Note: "stop: leaves things as they are until another apply, or verge rollout undo or resume. " +
				"rollback: applies the last revision in which the service was good."},
	}
}
