package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Upgrade answers with UpgradeAnswer.
func (f *Fake) Upgrade(context.Context) (wire.UpgradeView, error) {
	end, err := f.begin("upgrade")
	if err != nil {
		return wire.UpgradeView{}, err
	}
	defer end()
	return f.UpgradeAnswer, nil
}

// StartUpgrade notes the request and answers with UpgradeAnswer.
func (f *Fake) StartUpgrade(_ context.Context, q wire.UpgradeRequest) (wire.UpgradeView, error) {
	end, err := f.begin("start-upgrade")
	if err != nil {
		return wire.UpgradeView{}, err
	}
	defer end()
	f.Upgrades = append(f.Upgrades, q)
	return f.UpgradeAnswer, nil
}

// ChangeUpgrade notes the action and answers with UpgradeAnswer.
func (f *Fake) ChangeUpgrade(_ context.Context, action string, _ wire.UpgradeAction) (wire.UpgradeView, error) {
	end, err := f.begin("change-upgrade")
	if err != nil {
		return wire.UpgradeView{}, err
	}
	defer end()
	f.UpgradeActions = append(f.UpgradeActions, action)
	return f.UpgradeAnswer, nil
}
