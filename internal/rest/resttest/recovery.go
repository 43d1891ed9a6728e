package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Recovery is Recovering.
func (f *Fake) Recovery(context.Context) (wire.RecoveryView, error) {
	end, err := f.begin("recovery")
	if err != nil {
		return wire.RecoveryView{}, err
	}
	defer end()
	return f.Recovering, nil
}

// FinishRecovery takes a peer, or all, out of Recovering.
func (f *Fake) FinishRecovery(_ context.Context, peer string) error {
	end, err := f.begin("finish")
	if err != nil {
		return err
	}
	defer end()
	if peer == "" {
		f.Recovering = wire.RecoveryView{Peers: []wire.RecoveryPeer{}}
		return nil
	}
	for i, p := range f.Recovering.Peers {
		if p.Name == peer {
			f.Recovering.Peers[i].Asked = f.Recovering.Restored
			return nil
		}
	}
	return missing("cluster", peer)
}
