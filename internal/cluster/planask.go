package cluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/plugin"
)

// A plan asks plugins as an apply would, but waits for them, within its own time, and
// says that it is a plan. What comes of it is nobody's but the plan's: it neither makes a
// plugin rest nor ends that.

// consulting asks plugins for a rehearsal, one question after the other; notes has what
// it does not know therefore.
type consulting struct {
	plugins  map[string]*consultant
	question func(asks []*ask, joint bool, patience time.Duration) plugin.Question
	notes    map[string]string // by plugin
	meter    *planMeter
}

// consulting is what a rehearsal of a copy of the model asks with. The mutex is held.
func (c *core) consulting(m *model) *consulting {
	for id, x := range m.counsels {
		if x.answer == nil { // its answer goes to the model, not to the copy
			delete(m.counsels, id)
		}
	}
	return &consulting{plugins: maps.Clone(c.plugins), question: c.question, notes: map[string]string{}}
}

// ask asks what a pass wants to know, and puts the answers into m. It reports whether
// there are any.
func (c *consulting) ask(ctx context.Context, m *model, t *tx) (answers bool) {
	records.Merge(m.counsels, t.counsels)
	calls := batches(t.asks, c.plugins)
	for _, name := range records.SortedKeys(calls) {
		for _, asks := range calls[name] {
			answers = c.call(ctx, m, c.plugins[name], asks, t.Now) || answers
		}
	}
	return answers
}

// call asks one question. Where the time of the plan ends before that of the plugin, an
// apply would have waited longer: the instances wait, and a note says so.
func (c *consulting) call(ctx context.Context, m *model, p *consultant, asks []*ask, now time.Time) bool {
	patience, name := asks[0].limit, p.config.Name
	for _, a := range asks {
		patience = min(patience, a.limit)
	}
	given := patience
	if end, ok := ctx.Deadline(); ok {
		given = min(given, time.Until(end))
	}
	q := c.question(asks, p.config.Joint, given)
	q.Plan = true
	limited, cancel := context.WithTimeout(ctx, given)
	defer cancel()
	begin := time.Now()
	verdicts, err := p.Ask(limited, q)
	took := time.Since(begin)
	short := err != nil && limited.Err() != nil && given < patience
	if short {
		c.notes[name] = fmt.Sprintf("plugin %s did not answer in the time of a plan; an apply would wait for it for %s: until then its instances wait", name, patience)
	}
	for _, a := range asks {
		for _, id := range a.instances {
			old := m.counsels[id]
			if old == nil {
				continue
			}
			if short {
				next := *old
				next.sent = true
				m.counsels[id] = &next
				continue
			}
			m.counsels[id] = old.answered(advice(name, a.service(), id, verdicts, err, took), now)
		}
	}
	return !short
}

// said are the notes.
func (c *consulting) said() (out []string) {
	for _, name := range records.SortedKeys(c.notes) {
		out = append(out, c.notes[name])
	}
	return append(out, c.meter.notes...)
}

// batches are the questions to each plugin: one for each group of instances that are
// alike, or as few as can be to one that decides jointly.
func batches(asks map[string]*ask, plugins map[string]*consultant) map[string][][]*ask {
	calls := map[string][][]*ask{}
	for _, key := range records.SortedKeys(asks) {
		a := asks[key]
		a.instances = a.instances[:min(len(a.instances), plugin.MaxInstances)]
		list := calls[a.plugin]
		if p := plugins[a.plugin]; p == nil {
			continue
		} else if n := len(list); p.config.Joint && n > 0 && instancesOf(list[n-1])+len(a.instances) <= plugin.MaxInstances {
			list[n-1] = append(list[n-1], a)
		} else {
			list = append(list, []*ask{a})
		}
		calls[a.plugin] = list
	}
	return calls
}
