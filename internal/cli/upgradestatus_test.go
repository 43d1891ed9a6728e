package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// How far an upgrade is, what it waits for, and what else the cluster keeps.
func TestUpgradeStatusIsShown(t *testing.T) {
	fake := &resttest.Fake{UpgradeAnswer: wire.UpgradeView{
		Cluster: "edge", ID: "0123456789abcdef", State: wire.UpgradeHalted, By: "user/ann", At: ago(5 * time.Minute), Wave: 1, Why: "worker w1 has failed",
		Programs: []wire.Program{{OS: "linux", Arch: "amd64", SHA256: "ab12ab12ab12ab12", Size: 60 << 20}},
		Workers: []wire.UpgradeWorker{
			{Name: "w1", Phase: "failed", Version: "v2", Was: "v1", Why: "it works, and more requests fail: of the requests to shop.web here 20 of 40 failed (50%) since, 3 of 300 failed (1%) before, and on other workers 1 of 100 failed (1%) meanwhile; it has gone back"},
			{Name: "w2", Phase: "waiting", Version: "v1"},
		},
		Spare: 2, SpareBytes: 120 << 20, SpareUntil: ago(-20 * time.Hour),
	}}
	f := newFixture(t, fake)
	f.golden("upgrade-status", f.run("upgrade", "status"), "upgrade", "status")
	fake.UpgradeAnswer = wire.UpgradeView{Cluster: "edge", State: wire.UpgradeNone, Spare: 1, SpareBytes: 60 << 20, SpareUntil: ago(time.Minute)}
	f.golden("upgrade-none", f.run("upgrade", "status"), "upgrade", "status")
}
