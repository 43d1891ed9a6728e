package httpmsg

import (
	"net/http"
	"sync/atomic"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// LoadReports reads load reports and counts the invalid ones.
type LoadReports struct{ invalid atomic.Uint64 }

// Invalid is how many were not used as something in them is wrong.
func (r *LoadReports) Invalid() uint64 { return r.invalid.Load() }

// FromHeader is what a head, or trailers, say of the load of who made them; false where
// that is nothing, or nothing to be believed.
func (r *LoadReports) FromHeader(h http.Header) (report orca.Report, ok bool) {
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
		r.invalid.Add(1)
		return report, false
	}
	if err != nil {
		r.invalid.Add(1)
		return orca.Report{}, false
	}
	return report, true
}

// FromResponse is in for the fast path.
func (r *LoadReports) FromResponse(res *message.Response) (report orca.Report) {
	if res.Report == nil {
		return report
	}
	parse := orca.Parse
	if res.BinaryReport {
		parse = orca.ParseTrailer
	}
	report, err := parse(string(res.Report))
	if err != nil {
		r.invalid.Add(1)
		return orca.Report{}
	}
	return report
}

// DropReports takes load reports out of a head or trailers.
func DropReports(h http.Header) {
	delete(h, orca.Header)
	delete(h, orca.Trailer)
}
