package advisor

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

const (

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

// Inquiry is where an instance stands with its plugin. It is not changed once it is
// in the model, but replaced.
type Inquiry struct {
	plugin, key string // of the request
	since       time.Time
	Sent        bool
	// answer is nil while there is none; at is when it came, told when a pass has found
	// that there is no worker by it, seen what the workers were then.
	Answer *place.Advice
	at     time.Time
	told   bool
	seen   uint64
	tries  int
}

// Ask is a question about instances of one service that are alike.
type Ask struct {
	Plugin, key string
	Share       *wire.Share
	Request     place.Request // of the first
	Instances   []wire.InstanceID
	Workers     []place.WorkerView // that pass every filter
	Omitted     int
	Placed      int // instances of the service that have a worker
	Limit       time.Duration
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

// InquiryOf is where an instance stands as this tx sees it.
func InquiryOf(t *state.Tx, id wire.InstanceID) *Inquiry {
	if c, ok := Pass(t).Inquiries[id]; ok {
		return c
	}
	return Memory(t.Model).Inquiries[id]
}

// Advised asks a plugin for a worker, or decides by what it has answered. While the
// answer is awaited there is no decision, and t.waiting has the instance.
func Advised(t *state.Tx, i *wire.Instance, s *wire.Share, r place.Request) place.Decision {
	if _, known := Memory(t.Model).Plugins[r.Plugin]; !known {
		has := "none"
		if len(Memory(t.Model).Plugins) > 0 {
			has = strings.Join(slices.Sorted(maps.Keys(Memory(t.Model).Plugins)), ", ")
		}
		return noDecision(r, fmt.Sprintf("cluster %s has no plugin %s (has %s)", t.Model.Name, r.Plugin, has))
	}
	views, key, now := fleet.Index(t).Views(i.App+"."+i.Service), requestKey(r), t.Now
	c := InquiryOf(t, i.ID)
	switch {
	case c == nil || c.key != key || c.plugin != r.Plugin,
		c.Answer != nil && !c.told && now.Sub(c.at) > freshFor:
		return ask(t, i, s, r, views, Inquiry{plugin: r.Plugin, key: key, since: now})
	case c.Answer == nil && !c.Sent && now.Sub(c.since) >= limit(s):
		c = c.Answered(&place.Advice{Plugin: r.Plugin,
			Problem: "it has too many questions open already, and could not be asked in time"}, now)
	case c.Answer == nil && !c.Sent:
		return ask(t, i, s, r, views, *c)
	case c.Answer == nil:
		return wait(t, i, r)
	}
	r.Advice = c.Answer
	d := place.Schedule(views, r)
	if d.Chosen == "" && !c.told && c.Answer.Problem == "" && c.Answer.Names() {
		if c.tries+1 < maxTries {
			return ask(t, i, s, r, views, Inquiry{plugin: r.Plugin, key: key, since: now, tries: c.tries + 1})
		}
		stale := *c.Answer
		stale.Problem = fmt.Sprintf("what it named was taken when it answered, %d times", maxTries)
		c = c.Answered(&stale, now)
		r.Advice = c.Answer
		d = place.Schedule(views, r)
	}
	if c.Answer.Problem != "" && !c.told {
		t.Event(event.InstanceAdvice, i.ID, "plugin %s: %s; rom decides", r.Plugin, c.Answer.Problem)
	}
	if d.Chosen != "" {
		Pass(t).Inquiries[i.ID] = nil
		return d
	}
	if look := lookOf(views); !c.told {
		next := *c
		next.told, next.seen, next.at = true, look, now
		Pass(t).Inquiries[i.ID] = &next
	} else if age := now.Sub(c.at); age >= standsFor || look != c.seen && age >= askAgain {
		return ask(t, i, s, r, views, Inquiry{plugin: r.Plugin, key: key, since: now})
	}
	return d
}

// Answered is c with an answer.
func (c *Inquiry) Answered(a *place.Advice, now time.Time) *Inquiry {
	next := *c
	next.Answer, next.at, next.Sent = a, now, true
	return &next
}

// resting says why a plugin is not asked a question now, "" if it is: it has failed
// several times in a row, and either rests or is being tried out with another question.
func resting(t *state.Tx, name, group string) string {
	b := Memory(t.Model).Breakers[name]
	if !b.Open() {
		return ""
	}
	failed := fmt.Sprintf("it has failed %d times in a row (%s)", b.Failed, b.Why)
	if t.Now.Before(b.Until) {
		return fmt.Sprintf("it was not asked: %s, and rests until %s", failed, b.Until.UTC().Format(time.TimeOnly))
	}
	another := !b.May(t.Now)
	for key, a := range Pass(t).Asks {
		another = another || a.Plugin == name && key != group
	}
	if another {
		return "it was not asked: " + failed + ", and is being tried out with another question"
	}
	return ""
}

// byRom decides about an instance without its plugin.
func byRom(r place.Request, views []place.WorkerView, why string) place.Decision {
	r.Advice = &place.Advice{Plugin: r.Plugin, Problem: why}
	return place.Schedule(views, r)
}

// ask notes the question about an instance. Where no worker passes the filters, or
// the plugin rests, nobody is asked and rom decides.
func ask(t *state.Tx, i *wire.Instance, s *wire.Share, r place.Request, views []place.WorkerView,
	c Inquiry) place.Decision {
	r.Advice = nil
	group := r.Plugin + " " + i.App + "." + i.Service + " " + c.key
	if why := resting(t, r.Plugin, group); why != "" {
		d := byRom(r, views, why)
		if Pass(t).Inquiries[i.ID] = nil; d.Chosen != "" {
			Pass(t).Spared[r.Plugin]++
		}
		return d
	}
	a := Pass(t).Asks[group]
	if a == nil {
		list, more := place.Feasible(views, r, plugin.MaxCandidates)
		if len(list) == 0 {
			return byRom(r, views, "it was not asked, since no worker passes the filters")
		}
		a = &Ask{Plugin: r.Plugin, key: group, Share: s, Request: r, Workers: list, Omitted: more, Limit: limit(s)}
		for _, v := range views {
			a.Placed += v.Same
		}
		Pass(t).Asks[group] = a
	}
	a.Instances = append(a.Instances, i.ID)
	Pass(t).Inquiries[i.ID] = &c
	return wait(t, i, r)
}

// wait says that an instance waits for its plugin.
func wait(t *state.Tx, i *wire.Instance, r place.Request) place.Decision {
	Pass(t).Waiting[i.ID] = true
	return noDecision(r, "asked plugin "+r.Plugin+" for a worker")
}

func noDecision(r place.Request, why string) place.Decision {
	return place.Decision{V: wire.Version, Kind: place.KindWorker, Request: r, Reason: why}
}

// Known is what this process knows beside what is stored.
type Known struct {
	Plugins   map[string]bool // those that are registered, and whether they decide jointly
	Inquiries map[wire.InstanceID]*Inquiry
	Breakers  map[string]plugin.Breaker // by plugin
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known {
		return &Known{Plugins: map[string]bool{}, Inquiries: map[wire.InstanceID]*Inquiry{},
			Breakers: map[string]plugin.Breaker{}}
	},
	Clone: func(k *Known) *Known {
		return &Known{maps.Clone(k.Plugins), maps.Clone(k.Inquiries), maps.Clone(k.Breakers)}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	Asks      map[string]*Ask              // the questions to plugins
	Waiting   map[wire.InstanceID]bool     // instances that have no decision yet because of one
	Inquiries map[wire.InstanceID]*Inquiry // those that change; nil deletes
	// Spared counts by plugin the instances that rom has placed while it rested.
	Spared map[string]uint64
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch {
	return scratch.Of(t.Rows, func() *Scratch {
		return &Scratch{Asks: map[string]*Ask{}, Spared: map[string]uint64{}, Waiting: map[wire.InstanceID]bool{},
			Inquiries: map[wire.InstanceID]*Inquiry{}}
	})
}
