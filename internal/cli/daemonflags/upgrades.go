package daemonflags

import (
	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/internal/pki/programsig"
)

// Values of --upgrades beside a file.
const (
	upgradesNone = "none"
	upgradesAny  = "any"
)

func upgradesFlag(fl *pflag.FlagSet, upgrades *string) {
	fl.StringVar(upgrades, "upgrades", upgradesNone,
		"programs that the cluster may install (verge upgrade): none, any, or a file with public keys (PEM, "+
			"Ed25519), one of which must have signed the program")
}

// settleUpgrades reads which programs a cluster may bring.
func settleUpgrades(f *WorkerFlags, upgrades string) (err error) {
	f.AnyUpgrade, f.UpgradeKeys = upgrades == upgradesAny, nil
	if f.AnyUpgrade || upgrades == upgradesNone {
		return nil
	}
	if f.UpgradeKeys, err = programsig.ReadKeys(upgrades); err != nil {
		return errMustBe("--upgrades", err, "none, any, or a file with public keys")
	}
	return nil
}
