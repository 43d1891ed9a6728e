package httpmsg

import (
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// SlowBody says that nothing came of a body.
func SlowBody(timeout time.Duration) *wire.Problem {
	return wire.Problemf(http.StatusRequestTimeout, "slow-body",
		"send the body faster, or raise body_timeout of the ingress",
		"the body did not come in time", "nothing came for %s", timeout)
}
