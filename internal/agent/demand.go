package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
)

const (
	// demandPoll is how long one question for demand is held.
	demandPoll = 5 * time.Minute
	// demandAgain is the pause after an engine did not answer one.
	demandAgain = 10 * time.Second
)

// tellDemand passes on what is asked for here, for as long as somebody asks. What does
// not arrive is not said again: the next one says what is true then.
func (a *Agent) tellDemand(ctx context.Context, conn bus.Conn) {
	for ctx.Err() == nil {
		d, err := a.client.Demand(ctx, demandPoll)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(demandAgain): // it is starting, or of an older version
			}
			continue
		}
		if len(d.Services)+len(d.Answers) == 0 {
			continue
		}
		b, err := json.Marshal(d)
		if err == nil {
			err = conn.Publish(exchange.DemandSubject(a.opts.Name), b)
		}
		if err != nil {
			a.log.Debug("what is asked for here was not told", "error", err)
		}
	}
}
