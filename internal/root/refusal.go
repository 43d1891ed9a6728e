package root

import (
	"cmp"
	"maps"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// What a cluster gave back it is not asked for again for a while: longer each time, and
// as long as its aggregate shows nothing new of what is asked for, for as long as that may
// last. At the latest it is asked again after refuseMax: aggregates do not tell all.
const (
	refuseMin = 10 * time.Second
	refuseMax = 5 * time.Minute
	// refuseGained is the longest wait where its aggregate has become better.
	refuseGained = time.Minute
	// maxUnkept bounds the wait after an agreement was not kept there.
	maxUnkept = time.Hour
)

type refusal struct {
	spec *api.Service // what it could not run; another program is another question
	at   time.Time
	wait time.Duration
	why  string
	// agg is its aggregate as it was looked at last, nil where that says nothing; gained,
	// that it has become better since at.
	agg    *wire.Aggregate
	gained bool
	// unkept: it had an instance, and did not keep its agreement.
	unkept bool
}

// over says whether a cluster is to be asked again; untold, whether that hangs on what no
// aggregate has; eager, that others wait who would get there what has become free.
func (r *refusal) over(untold, eager bool, now time.Time) bool {
	age := now.Sub(r.at)
	switch {
	case r.agg == nil:
		return age >= r.wait
	case age >= refuseMax:
		return true
	case r.gained:
		return eager || age >= min(r.wait, refuseGained)
	}
	return untold && age >= r.wait
}

// refuses is why a cluster is not to be asked for an instance of a service (app.service)
// now, "" if it is.
func (c *cluster) refuses(svc string, spec *api.Service, eager bool, now time.Time) string {
	r, ok := c.refused[svc]
	if !ok || r.spec != spec && !(r.spec.SameProgram(spec) && r.spec.SameConstraints(spec)) {
		return ""
	}
	req := place.NewRequest(svc, spec, 1)
	if r.agg != nil && c.agg != nil && r.agg != c.agg {
		r.gained = r.gained || place.Gained(*r.agg, *c.agg, req)
		r.agg = c.agg
		c.refused[svc] = r
	}
	if r.over(len(spec.Latency) > 0 || place.Untold(req), eager, now) {
		return ""
	}
	return cmp.Or(r.why, "it gave an instance back")
}

// notKept notes that a cluster does not keep an agreement, so that nothing of the service
// goes there for a while, longer each time.
func (c *cluster) notKept(svc string, spec *api.Service, rest time.Duration, why string, now time.Time) {
	wait := rest
	if r := c.refused[svc]; r.unkept {
		wait = min(2*r.wait, maxUnkept)
	}
	c.refused[svc] = refusal{spec: spec, at: now, wait: wait, why: why, unkept: true}
}

// pruneEvery is the time between two looks for refusals that are long over.
const pruneEvery = time.Minute

// pruneRefusals forgets what clusters refused so long ago that it neither keeps them from
// being asked nor makes a next wait longer: of services that are gone as well.
func (m *model) pruneRefusals(now time.Time) {
	if now.Sub(m.pruned) < pruneEvery && !now.Before(m.pruned) {
		return
	}
	m.pruned = now
	for _, c := range m.clusters {
		maps.DeleteFunc(c.refused, func(_ string, r refusal) bool { return now.Sub(r.at) > 2*r.wait+refuseMax })
	}
}

// recallMoves takes from instances that were read from the store when services were moved
// for their agreement last: what replaces another was made then. A replacement of what
// was lost counts as well, which does no harm.
func (m *model) recallMoves(now time.Time) {
	for _, i := range m.insts {
		if i.Replaces == "" || len(i.History) == 0 {
			continue
		}
		key, at := i.App+"."+i.Service, i.History[0].At
		if a := m.apps[i.App]; a == nil || a.Spec.Services[i.Service] == nil || len(a.Spec.Services[i.Service].Latency) == 0 {
			continue
		}
		if age := now.Sub(at); age >= 0 && age <= sla.Rest && at.After(m.unkept[key]) {
			m.unkept[key] = at
		}
	}
}
