package cli

import (
	"io"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// How far an upgrade is, what it waits for, and what else the cluster keeps.
func TestUpgradeStatusIsShown(t *testing.T) {
	fake := &resttest.Fake{NodeData: resttest.NodeData{UpgradeAnswer: apiv1.UpgradeView{
		Cluster: "edge", ID: "0123456789abcdef", State: apiv1.UpgradeHalted, By: "user/ann", At: ago(5 * time.Minute),
		Wave: 1, Why: "worker w1 has failed",
		Programs: []wire.Program{{OS: "linux", Arch: "amd64", SHA256: "ab12ab12ab12ab12", Size: 60 << 20}},
		Workers: []apiv1.UpgradeWorker{
			{Name: "w1", Phase: "failed", Version: "v2", Was: "v1",
				Why: "it works, and more requests fail: of the requests to shop.web here 20 of 40 failed (50%) " +
					"since, 3 of 300 failed (1%) before, and on other workers 1 of 100 failed (1%) meanwhile; it " +
					"has gone back"},
			{Name: "w2", Phase: "waiting", Version: "v1"},
		},
		Spare: 2, SpareBytes: 120 << 20, SpareUntil: ago(-20 * time.Hour),
	}}}
	f := newFixture(t, fake)
	f.golden("upgrade-status", f.run("upgrade", "status"), "upgrade", "status")
	fake.UpgradeAnswer = apiv1.UpgradeView{Cluster: "edge", State: apiv1.UpgradeNone, Spare: 1, SpareBytes: 60 << 20,
		SpareUntil: ago(time.Minute)}
	f.golden("upgrade-none", f.run("upgrade", "status"), "upgrade", "status")
}

// The flag of the version before is still understood.
func TestFormerNameOfWorkerTimeout(t *testing.T) {
	flags := (&app{}).upgradeStartCommand().Flags()
	flags.SetOutput(io.Discard)
	if err := flags.Parse([]string{"--patience", "3m"}); err != nil {
		t.Fatal(err)
	}
	if got := flags.Lookup("worker-timeout").Value.String(); got != "3m0s" {
		t.Errorf("--patience 3m makes --worker-timeout %s", got)
	}
}
