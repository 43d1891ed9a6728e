package proxy

import (
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// reported is what a head, or trailers, say of the load of who made them; false where
// that is nothing, or nothing to be believed.
func (r *Router) reported(h http.Header) (report orca.Report, ok bool) {
	text, bin := h[orca.Header], h[orca.Trailer]
	var err error
	switch {
	case len(text) == 1:
		report, err = orca.Parse(text[0])
	case len(text) == 0 && len(bin) == 1:
		report, err = orca.ParseTrailer(bin[0])
	case len(text)+len(bin) == 0:
		return report, false
	default: // which one is meant?
		r.invalidReports.Add(1)
		return report, false
	}
	if err != nil {
		r.invalidReports.Add(1)
		return orca.Report{}, false
	}
	return report, true
}

// reportedBy is reported for the fast path.
func (r *Router) reportedBy(res *http1.Response) (report orca.Report) {
	if res.Report == nil {
		return report
	}
	parse := orca.Parse
	if res.BinaryReport {
		parse = orca.ParseTrailer
	}
	report, err := parse(string(res.Report))
	if err != nil {
		r.invalidReports.Add(1)
		return orca.Report{}
	}
	return report
}

func dropReports(h http.Header) {
	delete(h, orca.Header)
	delete(h, orca.Trailer)
}

// tell puts the load report into the head of an answer, or takes it out. Trailers: the
// client expects one there too.
func (x *exchange) tell(h http.Header, report bool) (trailers bool) {
	dropReports(h)
	if !report {
		return false
	}
	if x.held { // now, and not when the head came
		loadReport(&x.report, x.place.report())
	}
	h[orca.Header] = []string{string(x.report.AppendText(make([]byte, 0, 192)))}
	if x.req.ProtoMajor != 2 || !isGRPC(x.req.Header) {
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
	last, ok := x.r.reported(x.res.Trailer)
	dropReports(x.res.Trailer)
	if ok {
		takeHop(&last)
		x.report, x.trailed = last, true
	}
	if x.held && (ok || report) {
		loadReport(&x.report, x.place.report())
	}
	if report {
		h[http.TrailerPrefix+orca.Trailer] = []string{string(x.report.AppendBinary(nil))}
	}
}

// reported learns from the load report in the trailers of an answer.
func (c *call) reported(report *orca.Report) {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportedLocked(c.endpoint, time.Now(), report)
}
