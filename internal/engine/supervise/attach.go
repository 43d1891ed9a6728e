package supervise

import (
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/wire"
)

// attach gives the instance its part of the service network, or finds it again.
// Where the worker has none it does nothing.
func (in *Instance) attach(o *wire.Order) error {
	pid := 0
	if in.rec.Handle != nil {
		pid = in.rec.Handle.PID
	}
	a, err := in.deps.Network.Attach(o, in.rec.Net, pid, in.layout.Dir)
	if err != nil {
		return err
	}
	in.rec.Net, in.net = a.Place, a
	return nil
}

// detach ends the instance's part of the service network.
func (in *Instance) detach() error {
	in.net = network.Attachment{}
	return in.deps.Network.Detach(in.ID)
}
