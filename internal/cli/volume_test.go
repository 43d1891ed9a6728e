package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestVolumes(t *testing.T) {
	volume := func(worker, instance, name string, used bool) rpc.VolumeView {
		return rpc.VolumeView{Cluster: "edge", Worker: worker,
			VolumeRef: wire.VolumeRef{Namespace: "default", Instance: instance, Name: name}, InUse: used, Changed: noon}
	}
	fake := &resttest.Fake{
		NodeData: resttest.NodeData{WorkerList: []rpc.WorkerView{{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "edge"},
			{WorkerInfo: wire.WorkerInfo{Name: "w2"}, Cluster: "edge"}}},
		StorageData: resttest.StorageData{VolumeList: []rpc.VolumeView{volume("w1", "shop.db.0", "data", true), volume("w1", "old.db.0", "data", false),
			volume("w2", "shop.db.1", "data", true)}},
	}
	for i, state := range []string{wire.SnapshotWhole, wire.SnapshotChanged, wire.SnapshotLost} {
		at := noon.Add(time.Duration(i-3) * time.Hour)
		fake.SnapshotList = append(fake.SnapshotList,
			apiv1.SnapshotView{Cluster: "edge", State: state, Snapshot: wire.Snapshot{
				Namespace: "default", Object: snapshotName("shop.db.0", "data", at), Instance: "shop.db.0",
				Volume: "data", Size: 4096, Taken: at, Digest: strings.Repeat("ab", 32),
			}})
	}
	f := newFixture(t, fake)
	for name, line := range map[string]string{
		"volume-ls": "volume ls", "volume-ls-unused": "volume ls --unused -o name",
		"volume-ls-worker": "volume ls worker/w2 -o json", "volume-ls-none": "volume ls worker/w9",
		"volume-move-bad":      "volume move edge/w1/default/shop.db.0/data",
		"volume-move-none":     "volume move edge/w1/default/old.db.0/data --to w2",
		"volume-snapshot-bad":  "volume snapshot data",
		"volume-restore-bad":   "volume restore edge/w1/default/shop.db.0/data",
		"volume-move-cancel":   "volume move edge/w1/default/shop.db.0/data --cancel",
		"volume-forget-unsure": "volume forget edge/w1/default/shop.db.0/data",
		"volume-forget-bad":    "volume forget data",
		"volume-snapshot-ls":   "volume snapshot ls shop.db.0", "volume-snapshot-rm-bad": "volume snapshot rm data",
		"volume-snapshot-keep-bad": "volume snapshot edge/w1/default/shop.db.0/data --keep 0",
		"volume-rm-bad":            "volume rm data", "volume-rm-used": "volume rm edge/w1/default/shop.db.0/data",
		"volume-rm-none": "volume rm edge/w1/default/shop.db.9/data",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
	if r := f.run("volume", "forget", "edge/w1/default/shop.db.0/data", "--confirm", "shop.db.0"); r.code != 0 ||
		!strings.Contains(r.stdout, "shop.db.0 begins elsewhere") || fake.VolumeList[0].InUse {
		t.Errorf("%+v", r)
	}
	fake.VolumeList[0].InUse = true
	if r := f.run("volume", "rm", "volume/edge/w1/default/old.db.0/data"); r.code != 0 ||
		r.stdout != "volume/edge/w1/default/old.db.0/data removed\n" || len(fake.VolumeList) != 2 {
		t.Errorf("%+v, there is %+v", r, fake.VolumeList)
	}
}

// Of the snapshots of a volume so many are kept as are asked for, the one that was taken
// among them; those of others, and damaged ones while there is room for them, stay.
func TestSnapshotsThatAreKept(t *testing.T) {
	of := func(instance string, hours int, state string) apiv1.SnapshotView {
		at := noon.Add(time.Duration(hours) * time.Hour)
		return apiv1.SnapshotView{Cluster: "edge", State: state,
			Snapshot: wire.Snapshot{Namespace: "default", Object: snapshotName(instance, "data", at),
				Instance: instance, Volume: "data", Taken: at}}
	}
	list := []apiv1.SnapshotView{
		of("other.db.0", -9, wire.SnapshotWhole),
		of("shop.db.0", -5, wire.SnapshotWhole), of("shop.db.0", -4, wire.SnapshotWhole),
		of("shop.db.0", -3, wire.SnapshotChanged), of("shop.db.0", -2, wire.SnapshotWhole),
		of("shop.db.0", 0, wire.SnapshotWhole),
	}
	v := rpc.VolumeView{Cluster: "edge",
		VolumeRef: wire.VolumeRef{Namespace: "default", Instance: "shop.db.0", Name: "data"}}
	for keep, want := range map[int][]int{1: {4, 3, 2, 1}, 2: {3, 2, 1}, 3: {1}, 4: nil, 9: nil} {
		var got []int
		for _, s := range beyond(list, v, list[5].Object, keep) {
			got = append(got, slices.IndexFunc(list, func(l apiv1.SnapshotView) bool { return l.Object == s.Object }))
		}
		if !slices.Equal(got, want) {
			t.Errorf("keeping %d removes %v, want %v", keep, got, want)
		}
	}
}
