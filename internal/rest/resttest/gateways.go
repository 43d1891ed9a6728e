package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// GatewayACME finds nothing.
func (f *Fake) GatewayACME(context.Context, wire.ACMERequest) (wire.ACMEReply, error) {
	end, err := f.begin("gateway acme")
	if err != nil {
		return wire.ACMEReply{}, err
	}
	defer end()
	return wire.ACMEReply{V: wire.Version}, nil
}
