package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Scale implements rest.Backend.
func (b backend) Scale(context.Context, string, string, int) (wire.ApplyResult, error) {
	return wire.ApplyResult{}, rest.Elsewhere("scaling a service", "the root")
}

// Restart implements rest.Backend.
func (b backend) Restart(context.Context, string, wire.RestartRequest) (wire.RestartResult, error) {
	return wire.RestartResult{}, rest.Elsewhere("restarting instances", "the root")
}
