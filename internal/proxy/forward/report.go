package forward

import (
	"net/http"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/call"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

// tell puts the load report into the head of an answer, or takes it out. Trailers: the
// client expects one there too.
func (x *exchange) tell(h http.Header, report bool) (trailers bool) {
	httpmsg.DropReports(h)
	if !report {
		return false
	}
	if x.held { // now, and not when the head came
		httpmsg.SetQueueMetrics(&x.report, x.place.Report())
	}
	h[orca.Header] = []string{string(x.report.AppendText(make([]byte, 0, 192)))}
	if x.req.ProtoMajor != 2 || !httpmsg.IsGRPC(x.req.Header) {
		return false
	}
	if _, only := h["Grpc-Status"]; only { // the head is the trailers
		h[orca.Trailer] = []string{string(x.report.AppendBinary(nil))}
		return false
	}
	return true
}

// tellLast takes the load report out of the trailers of an answer and, where the client
// expects one there, puts in what it was complemented to.
func (x *exchange) tellLast(h http.Header, report bool) {
	last, ok := x.f.opts.Reports.FromHeader(x.res.Trailer)
	httpmsg.DropReports(x.res.Trailer)
	if ok {
		call.TakeHop(&last)
		x.report, x.trailed = last, true
	}
	if x.held && (ok || report) {
		httpmsg.SetQueueMetrics(&x.report, x.place.Report())
	}
	if report {
		h[http.TrailerPrefix+orca.Trailer] = []string{string(x.report.AppendBinary(nil))}
	}
}
