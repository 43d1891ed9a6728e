package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// CountersSince is what was counted since a moment.
type CountersSince struct {
	At time.Time `json:"at"`
	wire.Counters
}
