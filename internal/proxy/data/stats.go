package data

import (
	"github.com/verge-edge/verge/internal/proxy/counters"
)

// Stats counts the streams of other workers.
type Stats struct {
	Accepted uint64 // connections
	Served   uint64 // given to an instance
	Refused  uint64 // answered with the reason why not
	Rejected uint64 // cut off: handshake, preamble, or limit
	Open     int    // now
	Traffic  counters.Traffic
}
