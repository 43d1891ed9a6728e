package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// outcome counts how an instance of this worker has answered a request, whichever worker it
// came from: status, or err where there was no answer. What its client has taken back says
// nothing about it.
func (p *place) outcome(ctx context.Context, status int, err error) {
	p.count(ctx, httpmsg.IsFailure(status), err)
}

// headOutcome counts an answer whose head has come. One of gRPC is counted when its status
// has come: now where it has no body, else in callOutcome.
func (x *exchange) headOutcome() {
	x.open = false
	if !x.place.counted {
		return
	}
	if status := x.res.Header["Grpc-Status"]; httpmsg.IsCall(x.res) && len(status) == 0 {
		x.open = true
		return
	} else if httpmsg.IsCall(x.res) {
		x.place.count(x.req.Context(), httpmsg.CallFailed[status[0]], nil)
		return
	}
	x.place.outcome(x.req.Context(), x.res.StatusCode, nil)
}

// callOutcome counts an answer of gRPC that has ended: by its trailers, or as a failure where
// done is false and it came too late or broke off. One without a status counts as one that
// went well: gRPC-Web has it in its body.
func (x *exchange) callOutcome(done bool) {
	if !x.open {
		return
	}
	x.open = false
	switch {
	case !done && x.late():
		x.place.count(x.req.Context(), true, failure.ErrLate)
	case !done && x.broke:
		x.place.count(x.req.Context(), true, io.ErrUnexpectedEOF)
	case done:
		x.place.count(x.req.Context(), httpmsg.CallFailed[x.res.Trailer.Get("Grpc-Status")], nil)
	}
}

// count counts a request that was answered, or came to err.
func (p *place) count(ctx context.Context, failed bool, err error) {
	if !p.counted {
		return
	}
	if err != nil {
		if errors.Is(err, http1.ErrClient) || ctx.Err() != nil && !errors.Is(err, failure.ErrLate) {
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
	case p.spot.all.opts.Asked <- struct{}{}: // somebody waits for the first
	default:
	}
}

// Answers are how the instances of this worker have answered since it was called last, of
// services whose requests are counted, by their ids. It is for one caller.
func (s *spots) Answers() (out []wire.InstanceAnswers) {
	for _, x := range s.all() {
		// Failed first: what comes in between is in the next.
		failed := x.failed.Swap(0)
		if n := x.answered.Swap(0); n > 0 || failed > 0 {
			out = append(out, wire.InstanceAnswers{Instance: x.id, Answered: max(n, failed), Failed: failed})
		}
	}
	slices.SortFunc(out, func(a, b wire.InstanceAnswers) int { return cmp.Compare(a.Instance, b.Instance) })
	return out[:min(len(out), wire.MaxDemandReplicas)]
}
