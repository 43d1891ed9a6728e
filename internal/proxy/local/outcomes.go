package local

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// Outcome counts how an instance of this worker has answered a request, whichever worker it
// came from: status, or err where there was no answer. What its client has taken back says
// nothing about it.
func (p *Place) Outcome(ctx context.Context, status int, err error) {
	p.Count(ctx, httpmsg.IsFailure(status), err)
}

// Count counts a request that was answered, or came to err.
func (p *Place) Count(ctx context.Context, failed bool, err error) {
	if !p.Counted {
		return
	}
	if err != nil {
		if errors.Is(err, http1.ErrClient) || ctx.Err() != nil && !errors.Is(err, failure.ErrLate) {
			return
		}
		failed = true
	}
	if failed {
		p.Endpoint.failed.Add(1)
	}
	if p.Endpoint.answered.Add(1) > 1 {
		return
	}
	select {
	case p.Endpoint.all.Opts.Asked <- struct{}{}: // somebody waits for the first
	default:
	}
}

// Answers are how the instances of this worker have answered since it was called last, of
// services whose requests are counted, by their ids. It is for one caller.
func (s *Endpoints) Answers() (out []wire.InstanceAnswers) {
	for _, x := range s.All() {
		// Failed first: what comes in between is in the next.
		failed := x.failed.Swap(0)
		if n := x.answered.Swap(0); n > 0 || failed > 0 {
			out = append(out, wire.InstanceAnswers{Instance: x.id, Answered: max(n, failed), Failed: failed})
		}
	}
	slices.SortFunc(out, func(a, b wire.InstanceAnswers) int { return cmp.Compare(a.Instance, b.Instance) })
	return out[:min(len(out), wire.MaxDemandReplicas)]
}
