package stats

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// demandEvery is the time that one answer of Next is about, at least.
const demandEvery = 2 * time.Second

// DemandSource counts what clients on this worker ask for.
type DemandSource interface {
	// Asked receives when there is some demand again after there was none.
	Asked() <-chan struct{}
	// Demand is what clients here asked for since it was called last.
	Demand() []wire.ServiceDemand
	// Answers are how instances here have answered since it was called last.
	Answers() []wire.InstanceAnswers
}

// Demand is what clients on this worker ask for, for one caller at a time.
type Demand struct {
	source DemandSource
	ended  <-chan struct{}
	turn   chan struct{} // holds one while somebody has the next two
	quiet  bool          // nobody had asked for anything when that was looked at last
	at     time.Time     // when that was
}

// NewDemand reads from source; ended releases waiting callers.
func NewDemand(source DemandSource, ended <-chan struct{}) *Demand {
	return &Demand{source: source, ended: ended, turn: make(chan struct{}, 1), quiet: true}
}

// Next is what clients asked for since the last answer. It is held until there is demand and a
// while has passed, at most for wait.
func (d *Demand) Next(ctx context.Context, wait time.Duration) (wire.Demand, error) {
	out := wire.Demand{V: wire.Version}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return out, ctx.Err()
	case <-d.ended:
		return out, state.ErrStopped
	}
	over := time.NewTimer(min(max(wait, 0), state.MaxWait))
	defer over.Stop()
	for {
		if d.quiet {
			select {
			case <-d.source.Asked():
				d.at = time.Now()
			case <-over.C:
				return out, nil
			case <-ctx.Done():
				return out, ctx.Err()
			case <-d.ended:
				return out, state.ErrStopped
			}
			d.quiet = false
		}
		pause := time.NewTimer(time.Until(d.at.Add(demandEvery)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return out, ctx.Err()
		case <-d.ended:
			pause.Stop()
			return out, state.ErrStopped
		}
		now := time.Now()
		out.Span, out.Services = api.Duration(now.Sub(d.at)), bounded(d.source.Demand())
		out.Answers = d.source.Answers()
		d.at = now
		if d.quiet = len(out.Services)+len(out.Answers) == 0; !d.quiet {
			return out, nil
		}
	}
}

// bounded is as much of a demand as one message may have, the most wanted first.
func bounded(list []wire.ServiceDemand) []wire.ServiceDemand {
	slices.SortStableFunc(list, func(a, b wire.ServiceDemand) int { return cmp.Compare(b.Requests, a.Requests) })
	list = list[:min(len(list), wire.MaxDemandServices)]
	left := wire.MaxDemandReplicas
	for i := range list {
		n := min(len(list[i].Replicas), left)
		list[i].Replicas = list[i].Replicas[:n]
		left -= n
	}
	return list
}
