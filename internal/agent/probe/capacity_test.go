package probe

import (
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func TestDiskCapacityIsSteady(t *testing.T) {
	dir := t.TempDir()
	const gib = 1 << 30
	if got := steady(dir, 100*gib+5); got != 100*gib {
		t.Errorf("at first %v, want it rounded down", got)
	}
	if err := engineconfig.Write(dir, engineapi.EngineConfig{V: wire.Version, Capacity: api.Resources{Disk: 100 * gib}}); err != nil {
		t.Fatal(err)
	}
	for probed, want := range map[api.Bytes]api.Bytes{95 * gib: 100 * gib, 104 * gib: 100 * gib, 50 * gib: 50 * gib, 300*gib + 1: 300 * gib} {
		if got := steady(dir, probed); got != want {
			t.Errorf("with %v free: %v, want %v", probed, got, want)
		}
	}
}
