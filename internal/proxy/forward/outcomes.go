package forward

import (
	"io"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

// headOutcome counts an answer whose head has come. One of gRPC is counted when its status
// has come: now where it has no body, else in callOutcome.
func (x *exchange) headOutcome() {
	x.open = false
	if !x.place.Counted {
		return
	}
	if status := x.res.Header["Grpc-Status"]; httpmsg.IsCall(x.res) && len(status) == 0 {
		x.open = true
		return
	} else if httpmsg.IsCall(x.res) {
		x.place.Count(x.req.Context(), httpmsg.CallFailed[status[0]], nil)
		return
	}
	x.place.Outcome(x.req.Context(), x.res.StatusCode, nil)
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
		x.place.Count(x.req.Context(), true, failure.ErrLate)
	case !done && x.broke:
		x.place.Count(x.req.Context(), true, io.ErrUnexpectedEOF)
	case done:
		x.place.Count(x.req.Context(), httpmsg.CallFailed[x.res.Trailer.Get("Grpc-Status")], nil)
	}
}
