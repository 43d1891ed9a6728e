package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
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
	p.count(ctx, r, isFailure(status), err)
}

// callFailed are the statuses of gRPC that speak of the server: those which OpenTelemetry
// takes for errors of a server's span, but for UNIMPLEMENTED, which as 501 speaks of what it
// was asked for. DEADLINE_EXCEEDED is among them as 504 is; CANCELLED is the client's doing,
// and RESOURCE_EXHAUSTED is its quota, as 429.
var callFailed = map[string]bool{
	"2":  true, // UNKNOWN: what a handler that fails without a status gives
	"4":  true, // DEADLINE_EXCEEDED
	"13": true, // INTERNAL
	"14": true, // UNAVAILABLE
	"15": true, // DATA_LOSS
}

// isCall says whether an answer is one of gRPC, whose trailers say how it has ended.
func isCall(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && isGRPC(res.Header)
}

// headOutcome counts an answer whose head has come. One of gRPC is counted when its status
// has come: now where it has no body, else in callOutcome.
func (x *exchange) headOutcome() {
	x.open = false
	if !x.place.counted {
		return
	}
	if status := x.res.Header["Grpc-Status"]; isCall(x.res) && len(status) == 0 {
		x.open = true
		return
	} else if isCall(x.res) {
		x.place.count(x.req.Context(), x.r, callFailed[status[0]], nil)
		return
	}
	x.place.outcome(x.req.Context(), x.r, x.res.StatusCode, nil)
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
		x.place.count(x.req.Context(), x.r, true, errLate)
	case !done && x.broke:
		x.place.count(x.req.Context(), x.r, true, io.ErrUnexpectedEOF)
	case done:
		x.place.count(x.req.Context(), x.r, callFailed[x.res.Trailer.Get("Grpc-Status")], nil)
	}
}

// count counts a request that was answered, or came to err.
func (p *place) count(ctx context.Context, r *Router, failed bool, err error) {
	if !p.counted {
		return
	}
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
