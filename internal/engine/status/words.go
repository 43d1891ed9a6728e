package status

import (
	"fmt"
	"math"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Ended says how a start ended, for clients.
func Ended(e wire.Exit) string {
	switch {
	case e.OOM:
		return "its program was ended for using more memory than its limit"
	case e.Unknown:
		return "its program ended"
	case e.Why != "":
		return "it did not become ready in time"
	case e.Signal != "":
		return "its program was ended by signal " + e.Signal
	}
	return fmt.Sprintf("its program ended with exit code %d", e.Code)
}

// StartUp rounds a start-up time to steps of a quarter, so that not every start is a change.
func StartUp(d time.Duration) api.Duration {
	if d <= 0 {
		return 0
	}
	const step = 1.25
	n := math.Round(math.Log(float64(max(d, time.Millisecond))/float64(time.Millisecond)) / math.Log(step))
	return api.Duration(time.Duration(math.Pow(step, n) * float64(time.Millisecond)).Round(100 * time.Microsecond))
}
