package root

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Upgrade implements rest.Backend.
func (b backend) Upgrade(context.Context) (wire.UpgradeView, error) {
	return wire.UpgradeView{}, upgradeElsewhere()
}

// StartUpgrade implements rest.Backend.
func (b backend) StartUpgrade(context.Context, wire.UpgradeRequest) (wire.UpgradeView, error) {
	return wire.UpgradeView{}, upgradeElsewhere()
}

// ChangeUpgrade implements rest.Backend.
func (b backend) ChangeUpgrade(context.Context, string, wire.UpgradeAction) (wire.UpgradeView, error) {
	return wire.UpgradeView{}, upgradeElsewhere()
}

// upgradeElsewhere: the root does not own workers.
func upgradeElsewhere() error { return rest.Elsewhere("upgrading workers", "their cluster") }
