package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRecovery(t *testing.T) {
	fake := &resttest.Fake{NodeData: resttest.NodeData{Recovering: apiv1.RecoveryView{
		Restored: noon.Add(-time.Minute), Made: noon.Add(-time.Hour), Holding: true,
		Peers: []apiv1.RecoveryPeer{{Name: "edge", Asked: noon.Add(-30 * time.Second)},
			{Name: "fog", Problem: "nobody answers"}},
		Applications: map[string]wire.Recovered{"shop": {From: []string{"edge"}, At: noon.Add(-30 * time.Second)}},
	}}}
	f := newFixture(t, fake)
	for _, step := range [][2]string{
		{"recovery", "recovery"}, {"recovery-finish-one", "recovery finish cluster/fog"},
		{"recovery-finish", "recovery finish"}, {"recovery-none", "recovery"},
	} {
		args := strings.Fields(step[1])
		f.golden(step[0], f.run(args...), args...)
	}
}

// An older copy of a data directory recovers by itself, and says who has seen more.
func TestRecoveryOfAnOlderCopy(t *testing.T) {
	at := noon.Add(-time.Hour)
	f := newFixture(t, &resttest.Fake{NodeData: resttest.NodeData{Recovering: apiv1.RecoveryView{
		Restored: at, Made: at, Ahead: "cluster edge", Holding: true, Peers: []apiv1.RecoveryPeer{{Name: "edge"}},
	}}})
	f.golden("recovery-older-copy", f.run("recovery"), "recovery")
}
