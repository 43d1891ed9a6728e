package proxy

import (
	"time"

	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/proxy/router"
)

// Stats are counters since the Router was made, and what is open now.
type Stats struct {
	// Services in order of application and service.
	Services []router.ServiceStats
	Data     data.Stats
	Gateway  gateway.Stats
	// NoRoute counts connections to entries whose service has no route.
	NoRoute uint64
	// EntryConns are the connections of all entries that are open now.
	EntryConns int
	// Handshakes with other workers that are under way.
	Handshakes int
	// InvalidReports are load reports of instances that were not used as something in
	// them is wrong.
	InvalidReports uint64
	// Waiting are requests that wait for the head of an answer from another worker.
	Waiting int
	// Lines to other workers of which something is known, in order of their names.
	Lines []router.LineStats
}

// Stats returns the counters. Its cost grows with the number of endpoints.
func (r *Router) Stats() Stats {
	st := Stats{
		Data: r.data.Stats(), Gateway: r.gateway.Stats(),
		NoRoute: r.services.NoRoute.Load(), InvalidReports: r.reports.Invalid(),
		EntryConns: r.entries.Conns.Open(), Handshakes: r.data.Shaking(),
		Lines: r.services.Lines.Known(time.Now()),
	}
	st.Services, st.Waiting = r.services.Stats()
	return st
}
