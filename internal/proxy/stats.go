package proxy

import (
	"time"
)

// Stats are counters since the Router was made, and what is open now.
type Stats struct {
	// Services in order of application and service.
	Services []ServiceStats
	Data     DataStats
	Gateway  GatewayStats
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
	Lines []LineStats
}

// Stats returns the counters. Its cost grows with the number of endpoints.
func (r *Router) Stats() Stats {
	st := Stats{
		Data: r.data.stats(), Gateway: r.gateway.stats(),
		NoRoute: r.services.noRoute.Load(), InvalidReports: r.reports.Invalid(),
		EntryConns: r.entries.conns.Open(), Handshakes: r.data.shaking(),
		Lines: r.services.lines.known(time.Now()),
	}
	st.Services, st.Waiting = r.services.stats()
	return st
}
