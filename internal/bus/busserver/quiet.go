package busserver

import (
	"time"
	_ "unsafe" // for the names of another package

	"github.com/nats-io/nats-server/v2/server"
)

// The server library has two clocks that tick every second whether or not
// anybody asks for what they keep: one removes old entries of a list of log lines,
// the other samples the processor time of the process, in every process that is
// linked with the library, so in a worker's too. Together they were half of what
// an idle root costs, and nearly all of an engine. Neither can be set from outside.

// logListEvery is how often log lines that were said once may be said again.
const logListEvery = time.Minute

//go:linkname setLogListInterval github.com/nats-io/nats-server/v2/server.(*Server).changeRateLimitLogInterval
func setLogListInterval(s *server.Server, d time.Duration)
