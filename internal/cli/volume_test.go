package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestVolumes(t *testing.T) {
	volume := func(worker, instance, name string, used bool) wire.VolumeView {
		return wire.VolumeView{Cluster: "edge", Worker: worker, VolumeRef: wire.VolumeRef{Namespace: "default", Instance: instance, Name: name}, InUse: used, Changed: noon}
	}
	fake := &resttest.Fake{
		WorkerList: []wire.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "edge"}, {WorkerInfo: wire.WorkerInfo{Name: "w2"}, Cluster: "edge"}},
		VolumeList: []wire.VolumeView{volume("w1", "shop.db.0", "data", true), volume("w1", "old.db.0", "data", false), volume("w2", "shop.db.1", "data", true)},
	}
	f := newFixture(t, fake)
	for name, line := range map[string]string{
		"volume-ls": "volume ls", "volume-ls-unused": "volume ls --unused -o name", "volume-ls-worker": "volume ls worker/w2 -o json", "volume-ls-none": "volume ls worker/w9",
		"volume-move-bad": "volume move edge/w1/default/shop.db.0/data", "volume-move-none": "volume move edge/w1/default/old.db.0/data --to w2",
		"volume-snapshot-bad": "volume snapshot data", "volume-restore-bad": "volume restore edge/w1/default/shop.db.0/data",
		"volume-move-cancel": "volume move edge/w1/default/shop.db.0/data --cancel",
		"volume-rm-bad":      "volume rm data", "volume-rm-used": "volume rm edge/w1/default/shop.db.0/data", "volume-rm-none": "volume rm edge/w1/default/shop.db.9/data",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	if r := f.run("volume", "rm", "volume/edge/w1/default/old.db.0/data"); r.code != 0 || r.stdout != "volume/edge/w1/default/old.db.0/data removed\n" || len(fake.VolumeList) != 2 {
		t.Errorf("%+v, there is %+v", r, fake.VolumeList)
	}
}
