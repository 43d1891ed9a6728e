package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxCalls of one plugin that are open.
	maxCalls = 4
	// maxPlugins of one cluster.
	maxPlugins = 16
	// answered is the result of a call that went well; others are plugin.Classes.
	answered = "answered"
)

// asker asks a plugin. Ask returns the verdicts by service, or a *plugin.Error when
// ctx ends at the latest.
type asker interface {
	Ask(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error)
	Close()
}

var _ asker = (*plugin.HTTP)(nil)

// consultant is a plugin that is registered. The mutex of the core guards it.
type consultant struct {
	asker
	config plugin.Config
	open   int
	calls  map[string]uint64 // by result
	spared uint64            // instances that rom has placed while it rested
	// last is the last question that has ended, failure the last that failed; nil: none.
	last, failure *wire.PluginCall
	took          obs.Histogram
}

// consult asks what a pass wants to know, as far as the plugins have time for it, and
// takes over where its instances stand. The mutex is held.
func (c *core) consult(t *tx) {
	records.Merge(c.m.counsels, t.counsels)
	for id := range c.m.counsels {
		if c.m.Insts[id] == nil {
			delete(c.m.counsels, id)
		}
	}
	for name, n := range t.spared {
		if p := c.plugins[name]; p != nil {
			p.spared += n
		}
	}
	calls := batches(t.asks, c.plugins)
	for _, name := range records.SortedKeys(calls) {
		p := c.plugins[name]
		for _, asks := range calls[name] {
			if p.open < maxCalls && c.m.breakers[name].May(t.Now) {
				c.call(p, asks)
			}
		}
	}
}

func instancesOf(asks []*ask) (n int) {
	for _, a := range asks {
		n += len(a.instances)
	}
	return n
}

// call asks a plugin about services, without waiting for it. The mutex is held.
func (c *core) call(p *consultant, asks []*ask) {
	patience := asks[0].limit
	sent := map[wire.InstanceID]*counsel{}
	for _, a := range asks {
		patience = min(patience, a.limit)
		for _, id := range a.instances {
			if old := c.m.counsels[id]; old != nil {
				next := *old
				next.sent = true
				c.m.counsels[id], sent[id] = &next, &next
			}
		}
	}
	q := c.question(asks, p.config.Joint, patience)
	p.open++
	name := p.config.Name
	var trial bool
	c.m.breakers[name], trial = c.m.breakers[name].Asked()
	c.asking.Go(func() {
		ctx, cancel := context.WithTimeout(c.askCtx, patience)
		defer cancel()
		begin := time.Now()
		verdicts, err := p.Ask(ctx, q)
		took := time.Since(begin)
		c.mu.Lock()
		defer c.mu.Unlock()
		p.open--
		p.note(q, err, took, time.Now())
		if c.plugins[name] == p { // else another one has its name now
			c.judged(name, trial, err, time.Now())
		}
		for _, a := range asks {
			for _, id := range a.instances {
				// Where it has been asked anew meanwhile this answer is nobody's.
				if old := c.m.counsels[id]; old != nil && old == sent[id] {
					c.m.counsels[id] = old.answered(advice(name, a.service(), id, verdicts, err, took), time.Now())
				}
			}
		}
		if err != nil {
			c.log.Warn("a plugin gave no answer that can be used", "plugin", name, "error", err)
		}
		loop.Poke(c.wake)
	})
}

// judged notes how a question to a plugin ended: whether it is asked the next. The
// mutex is held.
func (c *core) judged(name string, trial bool, err error, now time.Time) {
	before := c.m.breakers[name]
	after := before.Ended(trial, err, now)
	c.m.breakers[name] = after
	var what string
	switch {
	case after.Open() && after.Until != before.Until:
		what = fmt.Sprintf("plugin %s has failed %d times in a row and is not asked for %s: %s; rom decides", name, after.Failed, after.Until.Sub(now).Round(time.Second), after.Why)
	case before.Open() && !after.Open():
		what = fmt.Sprintf("plugin %s answers again", name)
	default:
		return
	}
	c.events.Add(now, c.m.Tier(), "cluster/"+c.name, what)
	c.log.Info(what)
}

func (a *ask) service() string { return a.share.App + "." + a.share.Service }

// note counts a call, and remembers it.
func (p *consultant) note(q plugin.Question, err error, took time.Duration, now time.Time) {
	result := answered
	if err != nil {
		result = plugin.Unreachable
		var e *plugin.Error
		if errors.As(err, &e) {
			result = e.Class
		}
	}
	p.calls[result]++
	p.last = &wire.PluginCall{At: now, Seconds: took.Seconds(), Result: result, Services: len(q.Services), Candidates: len(q.Candidates)}
	for i := range q.Services {
		p.last.Instances += len(q.Services[i].Instances)
	}
	if q.Service != nil {
		p.last.Services, p.last.Instances = 1, len(q.Service.Instances)
	}
	if err != nil {
		p.last.Problem, p.failure = err.Error(), p.last
	}
	n := 0
	for n < len(obs.Bounds) && took.Seconds() > obs.Bounds[n] {
		n++
	}
	p.took.Counts[n]++
	p.took.Sum += took.Seconds()
}

// advice is what a plugin said about one instance.
func advice(name, service string, id wire.InstanceID, verdicts map[string]plugin.Verdict, err error, took time.Duration) *place.Advice {
	out := &place.Advice{Plugin: name, TookNs: took.Nanoseconds()}
	v, has := verdicts[service]
	switch {
	case err != nil:
		out.Problem = err.Error()
		return out
	case !has:
		out.Problem = "it did not answer for " + service
		return out
	}
	out.Worker, out.Rejected, out.Reason = v.Placements[id], v.Rejected, v.Reason
	for _, r := range v.Ranking {
		out.Ranking = append(out.Ranking, place.Ranked{ID: r.ID, Score: *r.Score})
	}
	slices.SortStableFunc(out.Ranking, func(a, b place.Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return out
}

// question puts into words of the contract what is asked.
func (c *core) question(asks []*ask, joint bool, patience time.Duration) plugin.Question {
	q := plugin.Question{V: plugin.Version, Cluster: c.name, DeadlineMs: max(1, patience.Milliseconds())}
	at := map[string]int{} // of q.Candidates
	for _, a := range asks {
		r := a.request
		s := plugin.Service{
			Name: a.service(), Namespace: a.share.Namespace, Instances: a.instances, Placed: a.placed,
			Demand: place.Amounts(r.Demand), Runtime: r.Runtime, Spread: r.Spread,
		}
		for _, w := range a.workers {
			n, known := at[w.ID]
			if !known {
				n = len(q.Candidates)
				at[w.ID] = n
				q.Candidates = append(q.Candidates, candidate(w))
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
		q.Omitted += a.omitted
		if joint {
			q.Services = append(q.Services, s)
		} else {
			q.Service = &s
		}
	}
	return q
}

func candidate(w place.WorkerView) plugin.Candidate {
	out := plugin.Candidate{ID: w.ID, Arch: w.Arch, Labels: w.Labels, Capacity: place.Amounts(w.Capacity), Free: place.Free(w)}
	if l := w.Location; l != nil {
		out.Location = []float64{l[0], l[1]}
	}
	return out
}

// setPlugins registers plugins in the place of those before. One that is as it was
// keeps its connections and its figures. On an error nothing has changed.
func (c *core) setPlugins(configs []plugin.Config) error {
	if len(configs) > maxPlugins {
		return fmt.Errorf("%d plugins, a cluster has at most %d", len(configs), maxPlugins)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next, fresh := map[string]*consultant{}, []asker{}
	for _, config := range configs {
		if old := c.plugins[config.Name]; old != nil && old.config == config {
			next[config.Name] = old
			continue
		}
		a, err := c.newAsker(config)
		if err != nil {
			for _, a := range fresh {
				a.Close()
			}
			return fmt.Errorf("plugin %s: %w", config.Name, err)
		}
		fresh = append(fresh, a)
		next[config.Name] = &consultant{asker: a, config: config, calls: map[string]uint64{}, took: obs.Histogram{Counts: make([]uint64, len(obs.Bounds)+1)}}
	}
	for name, old := range c.plugins {
		if next[name] != old {
			old.Close()
			delete(c.m.breakers, name)
		}
	}
	c.plugins, c.m.plugins = next, map[string]bool{}
	for name, p := range next {
		c.m.plugins[name] = p.config.Joint
	}
	return nil
}

// stopAsking ends what is asked, and waits for it.
func (c *core) stopAsking() {
	c.endAsking()
	c.asking.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.plugins {
		p.Close()
	}
}

// pluginSamples are figures of the plugins, of which there are few. The mutex is held.
func (c *core) pluginSamples() (out []obs.Sample) {
	for _, name := range records.SortedKeys(c.plugins) {
		p := c.plugins[name]
		label := [2]string{"plugin", name}
		for _, result := range append([]string{answered}, plugin.Classes...) {
			out = append(out, obs.Sample{
				Name: "verge_plugin_calls_total", Help: "Questions to scheduler plugins by what became of them.", Counter: true,
				Labels: [][2]string{label, {"result", result}}, Value: float64(p.calls[result]),
			})
		}
		resting := 0.0
		if c.m.breakers[name].Open() {
			resting = 1
		}
		out = append(out,
			obs.Sample{Name: "verge_plugin_resting", Help: "1 while a scheduler plugin that failed several times in a row is not asked, or only tried out.", Labels: [][2]string{label}, Value: resting},
			obs.Sample{Name: "verge_plugin_spared_total", Help: "Instances that were placed by rom while their scheduler plugin rested.", Counter: true, Labels: [][2]string{label}, Value: float64(p.spared)})
		took := obs.Histogram{Counts: slices.Clone(p.took.Counts), Sum: p.took.Sum}
		out = append(out, obs.Sample{Name: "verge_plugin_call_duration_seconds", Help: "Time until a scheduler plugin answered, or failed.", Labels: [][2]string{label}, Histogram: &took})
	}
	return out
}
