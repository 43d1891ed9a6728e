package schema

import (
	"github.com/verge-edge/verge/api"
)

func rolloutRows() []FieldSpec {
	in := func(field string) string { return "services.*.rollout" + field }
	return []FieldSpec{
		{Path: in(""),
			Note: "How instances are brought to another program. First some of the new revision start beside the others; when " +
				"they are ready, instances are updated, as many at a time, and at the end those that were too many go. What " +
				"fails stops the rollout: verge rollout status says why."},
		{Path: in(".max_surge"), Default: "25%, rounded up; 0 where max_unavailable is given or instances have named volumes",
			Note: "How many instances more than promised run meanwhile, as a number or a share. They need room, and are 100 " +
				"in a cluster at most."},
		{Path: in(".max_unavailable"), Default: "0; 1 where max_surge is 0",
			Note: "How many of those promised may be missing meanwhile, as a number or a share, rounded down. For clusters " +
				"without room for a surge, and for programs of which no more than so many may run."},
		{Path: in(".min_ready"),
			Default: "as " + api.DefaultMinReady.String() + " would be; as " + api.DefaultObserved.String() + " with slo",
			Max:     3600e9,
			Note: "How long what was updated has to be ready before the next are. With slo, what takes longer for a request " +
				"than that, and longer than those of the revision before, stops the rollout, and after 10s of that it has failed."},
		{Path: in(".progress_deadline"), Default: "as " + api.DefaultProgressDeadline.String() + " would be", Min: 1e9,
			Max:  24 * 3600e9,
			Note: "How long nothing may get any further before the rollout has failed. What was paused does not count."},
		{Path: in(".max_errors"), Default: "as " + api.DefaultMaxErrors.String() + " would be",
			Note: "How many of the requests over HTTP to updated instances may fail: answers 5xx (but 501 and 505) and " +
				"connections that break before one. The rollout has failed when it is certain that more do, and that more do " +
				"than of those to the instances of the revision before: 5 at least, and the 99% intervals (Wilson) of the two " +
				"shares do not touch. 100%: nobody looks."},
		{Path: in(".canary"), Max: api.MaxCanarySteps,
			Note: "Steps, of which each gives a larger share of the requests to the new revision, before anything that was " +
				"promised is touched. It runs beside the others on as many instances as its share is of those promised, which " +
				"max_surge must allow, so that none of them gets more than it would when all are updated; what fails stops it, " +
				"and all requests go back to the others at once. Of the requests that would come to a cluster each is drawn by " +
				"itself: a client meets both revisions. Clusters come one after the other. Of services that are not asked over " +
				"HTTP it is a share of the connections, and nothing is known of how they are answered. Left out: there are no " +
				"such steps."},
		{Path: in(".canary[].share"), Required: true, Note: "The share of the requests, more than that of the step before."},
		{Path: in(".canary[].for"), Default: "as " + api.DefaultCanaryStep.String() + " would be", Min: 1e9,
			Max:  7 * 24 * 3600e9,
			Note: "How long the step lasts at least, once its instances are ready for min_ready."},
		{Path: in(".canary[].requests"), Default: "as 0 would be", Max: 1e9,
			Note: "How many requests over HTTP the new revision must have answered in the step as well. Where fewer come, " +
				"progress_deadline counts from the end of for."},
		{Path: in(".on_failure"), Default: "as stop would be", Values: values("stop "+api.RollBack, "", ""),
			Note: "stop leaves things as they are, until something else is applied or verge rollout undo or resume says so. " +
				"rollback applies the last revision in which the service held."},
	}
}
