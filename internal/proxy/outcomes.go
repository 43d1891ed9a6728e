package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/wire"
)

// isFailure says whether an answer means that who made it has failed: it speaks of the
// server, and not of what it was asked for.
func isFailure(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
}

// outcome counts how an instance of this worker has answered a request, whichever worker it
// came from: status, or err where there was no answer. What its client has taken back says
// nothing about it.
func (p *place) outcome(ctx context.Context, r *Router, status int, err error) {
	if !p.counted {
		return
	}
	failed := isFailure(status)
	if err != nil {
		if errors.Is(err, http1.ErrClient) || ctx.Err() != nil && !errors.Is(err, errLate) {
			return
		}
		failed = true
	}
	if failed {
		p.spot.failed.Add(1)
	}
	if p.spot.answered.Add(1) > 1 {
		return
	}
	select {
	case r.asked <- struct{}{}: // somebody waits for the first
	default:
	}
}

// Answers are how the instances of this worker have answered since it was called last, of
// services whose requests are counted, by their ids. It is for one caller.
func (r *Router) Answers() (out []wire.InstanceAnswers) {
	for _, x := range r.spots.all() {
		// Failed first: what comes in between is in the next.
		failed := x.failed.Swap(0)
		if n := x.answered.Swap(0); n > 0 || failed > 0 {
			out = append(out, wire.InstanceAnswers{Instance: x.id, Answered: max(n, failed), Failed: failed})
		}
	}
	slices.SortFunc(out, func(a, b wire.InstanceAnswers) int { return cmp.Compare(a.Instance, b.Instance) })
	return out[:min(len(out), wire.MaxDemandReplicas)]
}
