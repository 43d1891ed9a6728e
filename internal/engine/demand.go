package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// demandEvery is the time that one answer of Demand is about, at least.
const demandEvery = 2 * time.Second

// Demand is what clients on this worker asked for since the last answer, held until
// there is some and a while has passed, at most for wait. It is for one caller. While
// nobody asks for anything it costs nothing but that it is asked.
func (e *Engine) Demand(ctx context.Context, wait time.Duration) (wire.Demand, error) {
	out := wire.Demand{V: wire.Version}
	if err := e.wait(ctx); err != nil {
		return out, err
	}
	select {
	case e.demanding <- struct{}{}:
		defer func() { <-e.demanding }()
	case <-ctx.Done():
		return out, ctx.Err()
	case <-e.ended:
		return out, state.ErrStopped
	}
	over := time.NewTimer(min(max(wait, 0), state.MaxWait))
	defer over.Stop()
	for {
		if e.quiet {
			select {
			case <-e.kit.router.Asked():
				e.demandAt = time.Now()
			case <-over.C:
				return out, nil
			case <-ctx.Done():
				return out, ctx.Err()
			case <-e.ended:
				return out, state.ErrStopped
			}
			e.quiet = false
		}
		turn := time.NewTimer(time.Until(e.demandAt.Add(demandEvery)))
		select {
		case <-turn.C:
		case <-ctx.Done():
			turn.Stop()
			return out, ctx.Err()
		case <-e.ended:
			turn.Stop()
			return out, state.ErrStopped
		}
		now := time.Now()
		out.Span, out.Services = api.Duration(now.Sub(e.demandAt)), bounded(e.kit.router.Demand())
		out.Answers = e.kit.router.Answers()
		e.demandAt = now
		if e.quiet = len(out.Services)+len(out.Answers) == 0; !e.quiet {
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
