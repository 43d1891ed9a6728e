package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// A plan measures what must be near as an apply would, since until somebody applies such a
// service nobody has: its workers are asked at once, and for a shorter time. What they say
// is known to the plan alone.

const (
	// planMeasures is how many workers a plan asks at most, those of a larger cluster
	// evenly by name; planRounds how often, as the place of an address is found first and
	// those near it measure it then.
	planMeasures = 200
	planRounds   = 3
	// planMeasureFor is how long a plan at this site measures; a root says how long
	// it waits.
	planMeasureFor = 3 * time.Second
)

// planMeter measures for a rehearsal.
type planMeter struct {
	cluster string
	one     func(context.Context, question) (wire.Measured, error)
	span    time.Duration // altogether, 0: no time
	end     time.Time     // of the measuring, once it has begun
	rounds  int
	decided bool
	notes   []string
}

// helps goes on with a rehearsal that has come to rest, where instances wait until it is
// known what is near. It reports whether there is something new: what was measured, or
// that nothing more will be, so that an apply decides by what is known.
func (p *planMeter) helps(ctx context.Context, m *model, now time.Time) bool {
	waits := m.waitsNear(now)
	if len(waits) == 0 || p.decided || ctx.Err() != nil {
		return false
	}
	if p.end.IsZero() {
		p.end = time.Now().Add(p.span)
		for _, s := range m.near.workers {
			if s.asking = false; s.answers == 0 { // what is on its way goes to the model, not to the copy
				s.asked = time.Time{}
			}
		}
	}
	for p.rounds < planRounds {
		p.rounds++
		asked, late := p.round(ctx, m, now)
		if late {
			p.decided = true
			p.note("cluster %s could not measure in the time of a plan what is near; an apply measures it first: until then instances wait", p.cluster)
			return false
		}
		if asked {
			return true
		}
	}
	p.decided = true
	for _, key := range records.SortedKeys(waits) {
		within := m.decideWithin(m.Shares[key])
		m.near.since[key] = now.Add(-within)
		p.note("%s %s; an apply decides after %s by what is known then", key, waits[key], within)
	}
	return true
}

func (p *planMeter) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// waitsNear are the services that have instances which wait until it is known what is
// near, and what they wait for.
func (m *model) waitsNear(now time.Time) map[string]string {
	t := m.begin()
	out := map[string]string{}
	for _, i := range t.Instances() {
		key := i.App + "." + i.Service
		if s := m.Shares[key]; s != nil && out[key] == "" && i.Worker == "" && t.wanted(i) && (i.State == wire.ClusterScheduled || i.State == wire.Failed || i.State == wire.Requested) {
			if why := t.nearWait(s, now); why != "" {
				out[key] = why
			}
		}
	}
	return out
}

// round asks the workers that the cluster would ask now, all at the same time. It reports
// whether any was asked, and whether the time was over before all had answered.
func (p *planMeter) round(ctx context.Context, m *model, now time.Time) (asked, late bool) {
	list, _ := m.survey(now)
	if len(list) == 0 {
		return false, false
	}
	if p.span <= 0 {
		return false, true
	}
	if all := len(list); all > planMeasures {
		some := make([]question, planMeasures)
		for k := range some {
			some[k] = list[k*all/planMeasures]
		}
		list = some
		p.note("cluster %s: %d of %d workers measured for the plan, an apply asks all of them", p.cluster, planMeasures, all)
	}
	ctx, cancel := context.WithDeadline(ctx, p.end)
	defer cancel()
	said, errs := make([]wire.Measured, len(list)), make([]error, len(list))
	slots := make(chan struct{}, surveyAtOnce)
	var all sync.WaitGroup
	for k := range list {
		list[k].samples = nil // a plan judges nothing that runs
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			said[k], errs[k] = p.one(ctx, list[k])
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return true, true
	}
	for k, q := range list {
		m.learnNear(q, said[k], errs[k], now)
	}
	for _, s := range m.near.workers { // one round is all there is
		s.asking, s.answers = false, max(s.answers, surveyRounds)
	}
	return true, false
}

// measureFor is how a rehearsal measures, for so long.
func (c *core) measureFor(patience time.Duration) *planMeter {
	return &planMeter{cluster: c.name, span: min(patience, planMeasureFor), one: c.measured}
}
