package cluster

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Placing by a plugin: a pass does not wait. It notes a question in its tx, the
// instance waits, and the pass that the answer wakes decides with it (advised). What
// is asked and what was answered is of this process: the next one asks again. See
// consult.go for who asks.

const (
	// schedulerPlugin as in a descriptor.
	schedulerPlugin = "plugin"
	// convergence is how long a plugin has for its answer where the service says
	// nothing (convergence_time).
	convergence = 2 * time.Second
	// freshFor is how long an answer may be used that nobody has used yet.
	freshFor = 30 * time.Second
	// An answer by which there is no worker stands while the workers are the same, at
	// most standsFor; where they are others it is asked again after askAgain.
	askAgain, standsFor = 2 * time.Second, time.Minute
	// maxTries at an answer that is out of date when it comes.
	maxTries = 3
)

// counsel is where an instance stands with its plugin. It is not changed once it is
// in the model, but replaced.
type counsel struct {
	plugin, key string // of the request
	since       time.Time
	sent        bool
	// answer is nil while there is none; at is when it came, told when a pass has found
	// that there is no worker by it, seen what the workers were then.
	answer *place.Advice
	at     time.Time
	told   bool
	seen   uint64
	tries  int
}

// ask is a question about instances of one service that are alike.
type ask struct {
	plugin, key string
	share       *wire.Share
	request     place.Request // of the first
	instances   []wire.InstanceID
	workers     []place.WorkerView // that pass every filter
	omitted     int
	placed      int // instances of the service that have a worker
	limit       time.Duration
}

// limit of the time that the plugin of a service has.
func limit(s *wire.Share) time.Duration {
	if s.Spec.ConvergenceTime != nil {
		return s.Spec.ConvergenceTime.Std()
	}
	return convergence
}

// requestKey names what a request asks for, apart from the instance.
func requestKey(r place.Request) string {
	r.Instance, r.Advice = "", nil
	r.Latency = nil // where the targets are is looked at when it is decided
	b, err := json.Marshal(r)
	if err != nil {
		return "" // then every answer is as good as another
	}
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return fmt.Sprintf("%x", h.Sum64())
}

// lookOf is what workers are as far as a plugin is told: where it changes it may
// answer something else.
func lookOf(workers []place.WorkerView) uint64 {
	h := fnv.New64a()
	slices.SortFunc(workers, func(a, b place.WorkerView) int { return strings.Compare(a.ID, b.ID) })
	for _, w := range workers {
		_, _ = fmt.Fprint(h, w.ID, w.Capacity, w.Used, w.Labels) // never fails
	}
	return h.Sum64()
}

// counselOf is where an instance stands as this tx sees it.
func (t *tx) counselOf(id wire.InstanceID) *counsel {
	if c, ok := t.counsels[id]; ok {
		return c
	}
	return t.m.counsels[id]
}

// advised asks a plugin for a worker, or decides by what it has answered. While the
// answer is awaited there is no decision, and t.waiting has the instance.
func (t *tx) advised(i *wire.Instance, s *wire.Share, r place.Request) place.Decision {
	if _, known := t.m.plugins[r.Plugin]; !known {
		has := "none"
		if len(t.m.plugins) > 0 {
			has = strings.Join(slices.Sorted(maps.Keys(t.m.plugins)), ", ")
		}
		return noDecision(r, fmt.Sprintf("cluster %s has no plugin %s (has %s)", t.m.Name, r.Plugin, has))
	}
	views, key, now := t.index().Views(i.App+"."+i.Service), requestKey(r), t.Now
	c := t.counselOf(i.ID)
	switch {
	case c == nil || c.key != key || c.plugin != r.Plugin,
		c.answer != nil && !c.told && now.Sub(c.at) > freshFor:
		return t.ask(i, s, r, views, counsel{plugin: r.Plugin, key: key, since: now})
	case c.answer == nil && !c.sent && now.Sub(c.since) >= limit(s):
		c = c.answered(&place.Advice{Plugin: r.Plugin, Problem: "it has too many questions open already, and could not be asked in time"}, now)
	case c.answer == nil && !c.sent:
		return t.ask(i, s, r, views, *c)
	case c.answer == nil:
		return t.wait(i, r)
	}
	r.Advice = c.answer
	d := place.Schedule(views, r)
	if d.Chosen == "" && !c.told && c.answer.Problem == "" && c.answer.Names() {
		if c.tries+1 < maxTries {
			return t.ask(i, s, r, views, counsel{plugin: r.Plugin, key: key, since: now, tries: c.tries + 1})
		}
		stale := *c.answer
		stale.Problem = fmt.Sprintf("what it named was taken when it answered, %d times", maxTries)
		c = c.answered(&stale, now)
		r.Advice = c.answer
		d = place.Schedule(views, r)
	}
	if c.answer.Problem != "" && !c.told {
		t.Event("instance/"+i.ID, "plugin %s: %s; rom decides", r.Plugin, c.answer.Problem)
	}
	if d.Chosen != "" {
		t.counsels[i.ID] = nil
		return d
	}
	if look := lookOf(views); !c.told {
		next := *c
		next.told, next.seen, next.at = true, look, now
		t.counsels[i.ID] = &next
	} else if age := now.Sub(c.at); age >= standsFor || look != c.seen && age >= askAgain {
		return t.ask(i, s, r, views, counsel{plugin: r.Plugin, key: key, since: now})
	}
	return d
}

// answered is c with an answer.
func (c *counsel) answered(a *place.Advice, now time.Time) *counsel {
	next := *c
	next.answer, next.at, next.sent = a, now, true
	return &next
}

// resting says why a plugin is not asked a question now, "" if it is: it has failed
// several times in a row, and either rests or is being tried out with another question.
func (t *tx) resting(name, group string) string {
	b := t.m.breakers[name]
	if !b.Open() {
		return ""
	}
	failed := fmt.Sprintf("it has failed %d times in a row (%s)", b.Failed, b.Why)
	if t.Now.Before(b.Until) {
		return fmt.Sprintf("it was not asked: %s, and rests until %s", failed, b.Until.UTC().Format(time.TimeOnly))
	}
	another := !b.May(t.Now)
	for key, a := range t.asks {
		another = another || a.plugin == name && key != group
	}
	if another {
		return "it was not asked: " + failed + ", and is being tried out with another question"
	}
	return ""
}

// byRom decides about an instance without its plugin.
func (t *tx) byRom(r place.Request, views []place.WorkerView, why string) place.Decision {
	r.Advice = &place.Advice{Plugin: r.Plugin, Problem: why}
	return place.Schedule(views, r)
}

// ask notes the question about an instance. Where no worker passes the filters, or
// the plugin rests, nobody is asked and rom decides.
func (t *tx) ask(i *wire.Instance, s *wire.Share, r place.Request, views []place.WorkerView, c counsel) place.Decision {
	r.Advice = nil
	group := r.Plugin + " " + i.App + "." + i.Service + " " + c.key
	if why := t.resting(r.Plugin, group); why != "" {
		d := t.byRom(r, views, why)
		if t.counsels[i.ID] = nil; d.Chosen != "" {
			t.spared[r.Plugin]++
		}
		return d
	}
	a := t.asks[group]
	if a == nil {
		list, more := place.Feasible(views, r, plugin.MaxCandidates)
		if len(list) == 0 {
			return t.byRom(r, views, "it was not asked, since no worker passes the filters")
		}
		a = &ask{plugin: r.Plugin, key: group, share: s, request: r, workers: list, omitted: more, limit: limit(s)}
		for _, v := range views {
			a.placed += v.Same
		}
		t.asks[group] = a
	}
	a.instances = append(a.instances, i.ID)
	t.counsels[i.ID] = &c
	return t.wait(i, r)
}

// wait says that an instance waits for its plugin.
func (t *tx) wait(i *wire.Instance, r place.Request) place.Decision {
	t.waiting[i.ID] = true
	return noDecision(r, "asked plugin "+r.Plugin+" for a worker")
}

func noDecision(r place.Request, why string) place.Decision {
	return place.Decision{V: wire.Version, Kind: place.KindWorker, Request: r, Reason: why}
}
