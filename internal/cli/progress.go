package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// Polling: at least minPoll apart, and never more than a fifth of the time.
const (
	minPoll  = 200 * time.Millisecond
	pollRest = 4
)

// errTimeout ends a poll whose time is over.
var errTimeout = errors.New("time is over")

// poll calls done until it returns true or the timeout is over. If the server is unreachable it
// prints that once and continues.
func (a *app) poll(ctx context.Context, timeout time.Duration, done func() (bool, error)) error {
	start := a.opts.Now()
	away := false
	for {
		asked := a.opts.Now()
		ok, err := done()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case passing(err):
			if !away {
				a.notef("%s  %s; waiting for it", a.clock(a.opts.Now()), clean(firstLine(err)))
			}
			away = true
		case err != nil:
			return err
		case ok:
			return nil
		case away:
			a.notef("%s  the server answers again", a.clock(a.opts.Now()))
			away = false
		}
		now := a.opts.Now()
		if now.Sub(start) >= timeout {
			return errTimeout
		}
		pause := max(minPoll, pollRest*now.Sub(asked))
		if err := a.opts.Sleep(ctx, min(pause, timeout-now.Sub(start))); err != nil {
			return err
		}
	}
}

// pace keeps a following loop from spinning if a server does not hold an
// answer as long as it was asked to.
func (a *app) pace(ctx context.Context, asked time.Time) {
	if a.opts.Now().Sub(asked) < minPoll {
		// The loop itself looks at ctx.
		_ = a.opts.Sleep(ctx, minPoll)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// progress prints each step of instances once.
type progress struct {
	a    *app
	seen map[string]bool
	last map[wire.InstanceID]wire.Instance // as they were when they were shown last
	// restarted is when an instance was last seen to have been restarted; zero: never.
	restarted time.Time
}

// calmFor is how long there must be no restart after one: the program of a crash loop
// without a readiness check is ready for a moment each time it starts.
const calmFor = 3 * time.Second

// calm says whether the last restart is long enough ago for what is shown to last.
func (p *progress) calm() bool { return p.a.opts.Now().Sub(p.restarted) >= calmFor }

func newProgress(a *app) *progress {
	return &progress{a: a, seen: map[string]bool{}, last: map[wire.InstanceID]wire.Instance{}}
}

// step is one line.
type step struct {
	at              time.Time
	id, what, place string
	why             string
}

// skip marks what list shows as already known.
func (p *progress) skip(list []apiv1.InstanceView) {
	p.news(list)
	p.restarted = time.Time{}
}

// show prints what list has that was not known.
func (p *progress) show(list []apiv1.InstanceView) {
	for _, s := range p.news(list) {
		line := fmt.Sprintf("%s  %s  %s", p.a.clock(s.at), s.id, s.what)
		if s.place != "" {
			line += "  " + s.place
		}
		if s.why != "" {
			line += "  " + s.why
		}
		p.a.notef("%s", clean(line))
	}
}

func (p *progress) news(list []apiv1.InstanceView) []step {
	var steps []step
	once := func(key string, s step) {
		if !p.seen[key] {
			p.seen[key] = true
			steps = append(steps, s)
		}
	}
	for _, i := range list {
		for _, h := range i.History {
			once(fmt.Sprintf("%s %d %s %s", i.ID, h.At.UnixNano(), h.To, h.Tier),
				step{at: h.At, id: i.ID, what: string(h.To), place: placeOf(i.Instance, h), why: h.Why})
		}
		was := p.last[i.ID]
		if i.Again() > was.Again() {
			p.restarted = p.a.opts.Now()
		}
		for _, what := range life.News(&was, &i.Instance) {
			if what.Kind != event.InstanceReady { // it is one for each incarnation
				steps = append(steps, step{at: p.a.opts.Now(), id: i.ID, what: what.Text, place: where(i.Instance)})
			}
		}
		p.last[i.ID] = i.Instance
		if i.Ready {
			once(fmt.Sprintf("%s %d ready", i.ID, i.Incarnation),
				step{at: p.a.opts.Now(), id: i.ID, what: "ready", place: where(i.Instance)})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	return steps
}

// placeOf is where a step put an instance, else who took it.
func placeOf(i wire.Instance, h wire.Transition) string {
	switch h.To {
	case wire.ClusterScheduled:
		return i.Cluster
	case wire.WorkerScheduled, wire.Running:
		return where(i)
	}
	return h.Tier
}
