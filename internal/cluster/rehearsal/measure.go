package rehearsal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A plan measures what must be near as an apply would, since until somebody applies such a
// service nobody has: its workers are asked at once, and for a shorter time. What they say
// is known to the plan alone.

const (
	// PlanMeasures is how many workers a plan asks at most, those of a larger cluster
	// evenly by name; planRounds how often, as the place of an address is found first and
	// those near it measure it then.
	PlanMeasures = 200
	planRounds   = 3
	// PlanMeasureFor is how long a plan at this site measures; a root says how long
	// it waits.
	PlanMeasureFor = 3 * time.Second
)

// Meter measures for a rehearsal.
type Meter struct {
	Cluster string
	One     func(context.Context, proximity.Question) (rpc.Measured, error)
	Span    time.Duration // altogether, 0: no time
	end     time.Time     // of the measuring, once it has begun
	rounds  int
	decided bool
	notes   []string
}

// helps goes on with a rehearsal that has come to rest, where instances wait until it is
// known what is near. It reports whether there is something new: what was measured, or
// that nothing more will be, so that an apply decides by what is known.
func (p *Meter) helps(ctx context.Context, m *state.Model, now time.Time) bool {
	waits := waitsNear(m, now)
	if len(waits) == 0 || p.decided || ctx.Err() != nil {
		return false
	}
	if p.end.IsZero() {
		p.end = time.Now().Add(p.Span)
		for _, s := range proximity.Memory(m).Near.Workers {
			if s.Asking = false; s.Answers == 0 { // what is on its way goes to the model, not to the copy
				s.Asked = time.Time{}
			}
		}
	}
	for p.rounds < planRounds {
		p.rounds++
		asked, late := p.round(ctx, m, now)
		if late {
			p.decided = true
			p.note("cluster %s could not measure in the time of a plan what is near; an apply measures it first: "+
				"until then instances wait", p.Cluster)
			return false
		}
		if asked {
			return true
		}
	}
	p.decided = true
	for _, key := range records.SortedKeys(waits) {
		within := proximity.DecideWithin(m.Shares[key])
		proximity.Memory(m).Near.Since[key] = now.Add(-within)
		p.note("%s %s; an apply decides after %s by what is known then", key, waits[key], within)
	}
	return true
}

func (p *Meter) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// waitsNear are the services that have instances which wait until it is known what is
// near, and what they wait for.
func waitsNear(m *state.Model, now time.Time) map[string]string {
	t := m.Begin()
	out := map[string]string{}
	for _, i := range t.Instances() {
		key := i.App + "." + i.Service
		if s := m.Shares[key]; s != nil && out[key] == "" && i.Worker == "" && instances.Wanted(t, i) &&
			(i.State == wire.ClusterScheduled || i.State == wire.Failed || i.State == wire.Requested) {
			if why := proximity.NearWait(t, s, now); why != "" {
				out[key] = why
			}
		}
	}
	return out
}

// round asks the workers that the cluster would ask now, all at the same time. It reports
// whether any was asked, and whether the time was over before all had answered.
func (p *Meter) round(ctx context.Context, m *state.Model, now time.Time) (asked, late bool) {
	list, _ := proximity.Survey(m, nil, now)
	if len(list) == 0 {
		return false, false
	}
	if p.Span <= 0 {
		return false, true
	}
	if all := len(list); all > PlanMeasures {
		some := make([]proximity.Question, PlanMeasures)
		for k := range some {
			some[k] = list[k*all/PlanMeasures]
		}
		list = some
		p.note("cluster %s: %d of %d workers measured for the plan, an apply asks all of them", p.Cluster,
			PlanMeasures, all)
	}
	ctx, cancel := context.WithDeadline(ctx, p.end)
	defer cancel()
	said, errs := make([]rpc.Measured, len(list)), make([]error, len(list))
	slots := make(chan struct{}, proximity.SurveyAtOnce)
	var all sync.WaitGroup
	for k := range list {
		list[k].Samples = nil // a plan judges nothing that runs
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			said[k], errs[k] = p.One(ctx, list[k])
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return true, true
	}
	for k, q := range list {
		proximity.LearnNear(m, q, said[k], errs[k], now)
	}
	for _, s := range proximity.Memory(m).Near.Workers { // one round is all there is
		s.Asking, s.Answers = false, max(s.Answers, proximity.SurveyRounds)
	}
	return true, false
}
