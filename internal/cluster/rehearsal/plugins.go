package rehearsal

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/plugin"
)

// A plan asks plugins as an apply would, but waits for them, within its own time, and
// says that it is a plan. What comes of it is nobody's but the plan's: it neither makes a
// plugin rest nor ends that.

// Asker asks plugins for a rehearsal, one question after the other; notes has what
// it does not know therefore.
type Asker struct {
	Plugins  map[string]*advisor.Advisor
	Question func(asks []*advisor.Ask, joint bool, patience time.Duration) plugin.Question
	Notes    map[string]string // by plugin
	Meter    *Meter
}

// ask asks what a pass wants to know, and puts the answers into m. It reports whether
// there are any.
func (c *Asker) ask(ctx context.Context, m *state.Model, t *state.Tx) (answers bool) {
	records.Merge(advisor.Memory(m).Inquiries, advisor.Pass(t).Inquiries)
	calls := Batches(advisor.Pass(t).Asks, c.Plugins)
	for _, name := range records.SortedKeys(calls) {
		for _, asks := range calls[name] {
			answers = c.call(ctx, m, c.Plugins[name], asks, t.Now) || answers
		}
	}
	return answers
}

// call asks one question. Where the time of the plan ends before that of the plugin, an
// apply would have waited longer: the instances wait, and a note says so.
func (c *Asker) call(ctx context.Context, m *state.Model, p *advisor.Advisor, asks []*advisor.Ask, now time.Time) bool {
	patience, name := asks[0].Limit, p.Config.Name
	for _, a := range asks {
		patience = min(patience, a.Limit)
	}
	given := patience
	if end, ok := ctx.Deadline(); ok {
		given = min(given, time.Until(end))
	}
	q := c.Question(asks, p.Config.Joint, given)
	q.Plan = true
	limited, cancel := context.WithTimeout(ctx, given)
	defer cancel()
	begin := time.Now()
	verdicts, err := p.Ask(limited, q)
	took := time.Since(begin)
	short := err != nil && limited.Err() != nil && given < patience
	if short {
		c.Notes[name] = fmt.Sprintf("plugin %s did not answer in the time of a plan; an apply would wait for it "+
			"for %s: until then its instances wait", name, patience)
	}
	for _, a := range asks {
		for _, id := range a.Instances {
			old := advisor.Memory(m).Inquiries[id]
			if old == nil {
				continue
			}
			if short {
				next := *old
				next.Sent = true
				advisor.Memory(m).Inquiries[id] = &next
				continue
			}
			advisor.Memory(m).Inquiries[id] = old.Answered(advisor.Advice(name, a.Service(), id, verdicts, err, took),
				now)
		}
	}
	return !short
}

// Said are the notes.
func (c *Asker) Said() (out []string) {
	for _, name := range records.SortedKeys(c.Notes) {
		out = append(out, c.Notes[name])
	}
	return append(out, c.Meter.notes...)
}

// Batches are the questions to each plugin: one for each group of instances that are
// alike, or as few as can be to one that decides jointly.
func Batches(asks map[string]*advisor.Ask, plugins map[string]*advisor.Advisor) map[string][][]*advisor.Ask {
	calls := map[string][][]*advisor.Ask{}
	for _, key := range records.SortedKeys(asks) {
		a := asks[key]
		a.Instances = a.Instances[:min(len(a.Instances), plugin.MaxInstances)]
		list := calls[a.Plugin]
		if p := plugins[a.Plugin]; p == nil {
			continue
		} else if n := len(list); p.Config.Joint && n > 0 &&
			advisor.InstancesOf(list[n-1])+len(a.Instances) <= plugin.MaxInstances {
			list[n-1] = append(list[n-1], a)
		} else {
			list = append(list, []*advisor.Ask{a})
		}
		calls[a.Plugin] = list
	}
	return calls
}
