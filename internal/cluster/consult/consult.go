package consult

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Consult asks what a pass wants to know, as far as the plugins have time for it, and
// takes over where its instances stand. The caller has the model.
func Consult(c *core.Core, t *state.Tx) {
	records.Merge(advisor.Memory(c.M).Inquiries, advisor.Pass(t).Inquiries)
	for id := range advisor.Memory(c.M).Inquiries {
		if c.M.Insts[id] == nil {
			delete(advisor.Memory(c.M).Inquiries, id)
		}
	}
	for name, n := range advisor.Pass(t).Spared {
		if p := Memory(c.M).Plugins[name]; p != nil {
			p.Spared += n
		}
	}
	calls := rehearsal.Batches(advisor.Pass(t).Asks, Memory(c.M).Plugins)
	for _, name := range records.SortedKeys(calls) {
		p := Memory(c.M).Plugins[name]
		for _, asks := range calls[name] {
			if p.Open < advisor.MaxCalls && advisor.Memory(c.M).Breakers[name].May(t.Now) {
				call(c, p, asks)
			}
		}
	}
}

// call asks a plugin about services, without waiting for it. The caller has the model.
func call(c *core.Core, p *advisor.Advisor, asks []*advisor.Ask) {
	patience := asks[0].Limit
	sent := map[wire.InstanceID]*advisor.Inquiry{}
	for _, a := range asks {
		patience = min(patience, a.Limit)
		for _, id := range a.Instances {
			if old := advisor.Memory(c.M).Inquiries[id]; old != nil {
				next := *old
				next.Sent = true
				advisor.Memory(c.M).Inquiries[id], sent[id] = &next, &next
			}
		}
	}
	q := Question(c, asks, p.Config.Joint, patience)
	p.Open++
	name := p.Config.Name
	var trial bool
	advisor.Memory(c.M).Breakers[name], trial = advisor.Memory(c.M).Breakers[name].Asked()
	c.Asking.Go(func() {
		ctx, cancel := context.WithTimeout(c.AskCtx, patience)
		defer cancel()
		begin := time.Now()
		verdicts, err := p.Ask(ctx, q)
		took := time.Since(begin)
		core.Do(c, func(m *state.Model) {
			p.Open--
			p.Note(q, err, took, time.Now())
			if Memory(m).Plugins[name] == p { // else another one has its name now
				judged(c, name, trial, err, time.Now())
			}
			for _, a := range asks {
				for _, id := range a.Instances {
					// Where it has been asked anew meanwhile this answer is nobody's.
					if old := advisor.Memory(m).Inquiries[id]; old != nil && old == sent[id] {
						advisor.Memory(m).Inquiries[id] = old.Answered(advisor.Advice(name, a.Service(), id, verdicts,
							err, took), time.Now())
					}
				}
			}
			if err != nil {
				c.Logger.Warn("a plugin gave no answer that can be used", "plugin", name, "error", err)
			}
		})
		loop.Poke(c.Wake)
	})
}

// judged notes how a question to a plugin ended: whether it is asked the next. The
// caller has the model.
func judged(c *core.Core, name string, trial bool, err error, now time.Time) {
	before := advisor.Memory(c.M).Breakers[name]
	after := before.Ended(trial, err, now)
	advisor.Memory(c.M).Breakers[name] = after
	var what string
	kind := event.PluginResting
	switch {
	case after.Open() && after.Until != before.Until:
		what = fmt.Sprintf("plugin %s has failed %d times in a row and is not asked for %s: %s; rom decides", name,
			after.Failed, after.Until.Sub(now).Round(time.Second), after.Why)
	case before.Open() && !after.Open():
		kind = event.PluginAnswered
		what = fmt.Sprintf("plugin %s answers again", name)
	default:
		return
	}
	c.EventRing.Note(now, kind, c.ClusterName, what)
}

// Question puts into words of the contract what is asked.
func Question(c *core.Core, asks []*advisor.Ask, joint bool, patience time.Duration) plugin.Question {
	q := plugin.Question{V: plugin.Version, Cluster: c.ClusterName, DeadlineMs: max(1, patience.Milliseconds())}
	at := map[string]int{} // of q.Candidates
	for _, a := range asks {
		r := a.Request
		s := plugin.Service{
			Name: a.Service(), Namespace: a.Share.Namespace, Instances: a.Instances, Placed: a.Placed,
			Demand: place.Amounts(r.Demand), Runtime: r.Runtime, Spread: r.Spread,
		}
		for _, w := range a.Workers {
			n, known := at[w.ID]
			if !known {
				n = len(q.Candidates)
				at[w.ID] = n
				q.Candidates = append(q.Candidates, advisor.Candidate(w))
			}
			if w.Same > 0 {
				if q.Candidates[n].Same == nil {
					q.Candidates[n].Same = map[string]int{}
				}
				q.Candidates[n].Same[s.Name] = w.Same
			}
			if joint {
				s.Candidates = append(s.Candidates, w.ID)
			}
		}
		q.Omitted += a.Omitted
		if joint {
			q.Services = append(q.Services, s)
		} else {
			q.Service = &s
		}
	}
	return q
}

// SetPlugins registers plugins in the place of those before. One that is as it was
// keeps its connections and its figures. On an error nothing has changed.
func SetPlugins(c *core.Core, configs []plugin.Config) error {
	if len(configs) > advisor.MaxPlugins {
		return fmt.Errorf("%d plugins, a cluster has at most %d", len(configs), advisor.MaxPlugins)
	}
	return core.View(c, func(m *state.Model) error {
		next, fresh := map[string]*advisor.Advisor{}, []advisor.Asker{}
		for _, config := range configs {
			if old := Memory(m).Plugins[config.Name]; old != nil && old.Config == config {
				next[config.Name] = old
				continue
			}
			a, err := newAsker(c, config)
			if err != nil {
				for _, a := range fresh {
					a.Close()
				}
				return fmt.Errorf("plugin %s: %w", config.Name, err)
			}
			fresh = append(fresh, a)
			next[config.Name] = &advisor.Advisor{Asker: a, Config: config, Calls: map[string]uint64{},
				Took: obs.Histogram{Counts: make([]uint64, len(obs.Bounds)+1)}}
		}
		for name, old := range Memory(m).Plugins {
			if next[name] != old {
				old.Close()
				delete(advisor.Memory(m).Breakers, name)
			}
		}
		Memory(m).Plugins, advisor.Memory(m).Plugins = next, map[string]bool{}
		for name, p := range next {
			advisor.Memory(m).Plugins[name] = p.Config.Joint
		}
		return nil
	})
}

// StopAsking ends what is asked, and waits for it.
func StopAsking(c *core.Core) {
	c.EndAsking()
	c.Asking.Wait()
	core.Do(c, func(m *state.Model) {
		for _, p := range Memory(m).Plugins {
			p.Close()
		}
	})
}

// PluginSamples are figures of the plugins, of which there are few. The caller has the model.
func PluginSamples(c *core.Core) (out []obs.Sample) {
	for _, name := range records.SortedKeys(Memory(c.M).Plugins) {
		p := Memory(c.M).Plugins[name]
		label := [2]string{"plugin", name}
		for _, result := range append([]string{advisor.Answered}, plugin.Classes...) {
			out = append(out, obs.Sample{
				Name: "verge_plugin_calls_total", Help: "Questions to scheduler plugins by what became of them.",
				Counter: true,
				Labels:  [][2]string{label, {"result", result}}, Value: float64(p.Calls[result]),
			})
		}
		resting := 0.0
		if advisor.Memory(c.M).Breakers[name].Open() {
			resting = 1
		}
		out = append(out,
			obs.Sample{Name: "verge_plugin_resting",
				Help: "1 while a scheduler plugin that failed several times in a row is not asked, or only tried " +
					"out.", Labels: [][2]string{label}, Value: resting},
			obs.Sample{Name: "verge_plugin_spared_total",
				Help: "Instances that were placed by rom while their scheduler plugin rested.", Counter: true,
				Labels: [][2]string{label}, Value: float64(p.Spared)})
		took := obs.Histogram{Counts: slices.Clone(p.Took.Counts), Sum: p.Took.Sum}
		out = append(out, obs.Sample{Name: "verge_plugin_call_duration_seconds",
			Help: "Time until a scheduler plugin answered, or failed.", Labels: [][2]string{label}, Histogram: &took})
	}
	return out
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	Plugins map[string]*advisor.Advisor // those that can be asked, by name
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
