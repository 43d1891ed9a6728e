package root

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of records in a root's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	own := []records.Kind{
		{Prefix: keyApp, Ask: true, Drop: "the application is made anew of what the clusters run of it, and nothing of it ends; its descriptor as it was written is not known any more: apply it again"},
		{Prefix: keyRevision, Drop: "one earlier revision is forgotten: no rollout undo leads to it"},
		{Prefix: keyInstance, Ask: true, Drop: "the instance is known again by the cluster that has it, and goes on; one that no cluster has yet is placed anew"},
		{Prefix: keyWhy, Fate: records.Aside, Read: records.Reads[place.Record], Drop: "verge explain does not know why the instance is where it is"},
		{Prefix: keyShare, Drop: "what the cluster is told of the service is made anew of its instances; a restart that goes from cluster to cluster may begin with it again"},
		{Prefix: keyRoute, Drop: "it is made anew"},
		{Prefix: keySealed, Drop: "it is made anew"},
		{Prefix: keyOver, Drop: "what runs elsewhere for want of room is decided anew"},
		{Prefix: keySchedule, Drop: "the schedule is given to the cluster that has the job, which goes on where it is; where that one is lost, what is due counts from now on"},
		{Prefix: keyNamespace, Drop: "the namespace and its quota are not known any more, and nobody can change what is in it before it is made again: verge namespace create"},
		{Prefix: keyPublish, Drop: "the clusters are not told any more what the namespace may publish, until its standing is set again"},
		{Prefix: keyTally, Drop: "what was counted of applications that are gone is forgotten"},
		{Prefix: keySecret, Drop: "the secret is not known any more, and is taken from who has it: set it again (verge secret set) at once after the start"},
		{Prefix: keyCluster, Drop: "the cluster is not known any more, as if it was removed: what it has is started elsewhere, and it joins again with a new token"},
		{Prefix: keyGone, Drop: "a key that was taken out counts again: remove or revoke the node again at once, if it can be found"},
		{Prefix: keyRevoked, Drop: "the clusters are not told any more that a key does not count, where none of them says so itself"},
		{Prefix: networkKey, Drop: "the network of the root is made anew, as at a first start: all instances in the service network get other addresses"},
		{Prefix: keyLease, Drop: "the cluster is given other blocks of addresses where it does not say which it has: its workers get other addresses"},
		{Prefix: backup.MarkKey, Instead: markedAgain, Drop: "the recovery begins anew: all clusters are asked again what they hold"},
		{Prefix: backup.SettledKey, Drop: "a cluster that proves an old state again may begin a recovery"},
	}
	for i, k := range own {
		if k.Read == nil {
			own[i].Fate = records.FateOf(k.Prefix, fates)
			own[i].Security = own[i].Fate == records.Stops
		}
	}
	return slices.Concat(own, people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
}

// markedAgain is the mark of a restore whose own cannot be read.
func markedAgain(now time.Time) ([]byte, error) {
	return json.Marshal(backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0)})
}

// Lost are the records of a root's store that cannot be read, those first that matter most.
func Lost(entries []bus.Entry) []records.Lost {
	m := newModel(0)
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error { return m.load(e, time.Time{}) })
}
