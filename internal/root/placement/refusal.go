package placement

import (
	"cmp"
	"maps"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/root/state"
)

// What a cluster gave back it is not asked for again for a while: longer each time, and
// as long as its aggregate shows nothing new of what is asked for, for as long as that may
// last. At the latest it is asked again after RefuseMax: aggregates do not tell all.
const (
	// RefuseMin is the first wait.
	RefuseMin = 10 * time.Second
	// RefuseMax is the longest wait.
	RefuseMax = 5 * time.Minute
	// refuseGained is the longest wait where its aggregate has become better.
	refuseGained = time.Minute
	// maxUnkept bounds the wait after an agreement was not kept there.
	maxUnkept = time.Hour
)

// over says whether a cluster is to be asked again; untold, whether that hangs on what no
// aggregate has; eager, that others wait who would get there what has become free.
func over(r *state.Refusal, untold, eager bool, now time.Time) bool {
	age := now.Sub(r.At)
	switch {
	case r.Agg == nil:
		return age >= r.Wait
	case age >= RefuseMax:
		return true
	case r.Gained:
		return eager || age >= min(r.Wait, refuseGained)
	}
	return untold && age >= r.Wait
}

// Refuses is why a cluster is not to be asked for an instance of a service (app.service)
// now, "" if it is.
func Refuses(c *state.Cluster, svc string, spec *api.Service, eager bool, now time.Time) string {
	r, ok := c.Refused[svc]
	if !ok || r.Spec != spec && !(r.Spec.SameProgram(spec) && r.Spec.SameConstraints(spec)) {
		return ""
	}
	req := place.NewRequest(svc, spec, 1)
	if r.Agg != nil && c.Aggregate != nil && r.Agg != c.Aggregate {
		r.Gained = r.Gained || place.Gained(*r.Agg, *c.Aggregate, req)
		r.Agg = c.Aggregate
		c.Refused[svc] = r
	}
	if over(&r, len(spec.Latency) > 0 || place.Untold(req), eager, now) {
		return ""
	}
	return cmp.Or(r.Why, "it gave an instance back")
}

// noteViolation notes that a cluster does not keep an agreement, so that nothing of the service
// goes there for a while, longer each time.
func noteViolation(c *state.Cluster, svc string, spec *api.Service, rest time.Duration, why string, now time.Time) {
	wait := rest
	if r := c.Refused[svc]; r.Violated {
		wait = min(2*r.Wait, maxUnkept)
	}
	c.Refused[svc] = state.Refusal{Spec: spec, At: now, Wait: wait, Why: why, Violated: true}
}

// pruneEvery is the time between two looks for refusals that are long over.
const pruneEvery = time.Minute

// PruneRefusals forgets what clusters refused so long ago that it neither keeps them from
// being asked nor makes a next wait longer: of services that are gone as well.
func PruneRefusals(m *state.Model, now time.Time) {
	if now.Sub(Memory(m).pruned) < pruneEvery && !now.Before(Memory(m).pruned) {
		return
	}
	Memory(m).pruned = now
	for _, c := range m.Clusters {
		maps.DeleteFunc(c.Refused, func(_ string, r state.Refusal) bool { return now.Sub(r.At) > 2*r.Wait+RefuseMax })
	}
}

// RecallMoves takes from instances that were read from the store when services were moved
// for their agreement last: what replaces another was made then. A replacement of what
// was lost counts as well, which does no harm.
func RecallMoves(m *state.Model, now time.Time) {
	for _, i := range m.Insts {
		if i.Replaces == "" || len(i.History) == 0 {
			continue
		}
		key, at := i.App+"."+i.Service, i.History[0].At
		if a := m.Apps[i.App]; a == nil || a.Spec.Services[i.Service] == nil ||
			len(a.Spec.Services[i.Service].Latency) == 0 {
			continue
		}
		if age := now.Sub(at); age >= 0 && age <= sla.Rest && at.After(Memory(m).LastMoves[key]) {
			Memory(m).LastMoves[key] = at
		}
	}
}
