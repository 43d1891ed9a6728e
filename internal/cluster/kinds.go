package cluster

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

// Kinds of records in a cluster's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	// What is from the root is fetched as a whole where it is not known which of it is here.
	fromRoot := []string{keyHave}
	own := []records.Kind{
		{Prefix: keyHave, Drop: "all that the root has decided is fetched again"},
		{Prefix: keyShare, Ask: true, With: fromRoot, Drop: "what runs here of the service is fetched from the root again before anything is decided, and goes on"},
		{Prefix: keyFar, With: fromRoot, Drop: "where the service is in other clusters is fetched from the root again"},
		{Prefix: keyLocal, Drop: "what was changed here of the service while the root was away is forgotten: what the root says counts, and what was begun here alone ends"},
		{Prefix: keyConflict, Drop: "the conflict is not shown any more"},
		{Prefix: keyAgain, Drop: "a restart that was asked for here is not done where it has not been yet"},
		{Prefix: keyLocals, Instead: highCount, Drop: "changes made here are counted from a higher number"},
		{Prefix: keyInstance, Ask: true, Drop: "the instance is taken over from the worker that runs it, and goes on; what was counted of it is forgotten, and one that runs nowhere is placed anew"},
		{Prefix: keyWhy, Fate: records.Aside, Read: records.Reads[place.Record], Drop: "verge explain does not know why the instance is where it is"},
		{Prefix: keyScaled, Drop: "how many instances there are to be is decided anew by the requests"},
		{Prefix: keyProfile, Drop: "what was measured of the service is forgotten: verge profile measures it again"},
		{Prefix: keyOrder, Ask: true, Drop: "what the worker is told of the instance is made anew"},
		{Prefix: keyRoute, Drop: "it is made anew"},
		{Prefix: keyName, Drop: "it is made anew"},
		{Prefix: keyUses, Drop: "it is made anew"},
		{Prefix: keyUp, Drop: "it is made anew; what was counted begins at zero"},
		{Prefix: keyRolling, Drop: "a rollout of the service that is under way begins again from where its instances are; what people said of it (pause, undo) is asked of the root"},
		{Prefix: keyJob, Ask: true, Drop: "the runs of the job are not known any more: the root is asked which indexes have completed, and how far its schedule is"},
		{Prefix: keySnapshot, Drop: "the snapshot is an object like any other: to restore a volume from it say its digest (--sha256)"},
		{Prefix: keyLeftVolumes, Security: true, Drop: "a volume that does not count any more may be taken for the present one when its worker comes back: remove it there before (verge volume rm)"},
		{Prefix: keyACME, Drop: "the certificate or account is made anew by the gateway that needs it"},
		{Prefix: keyUpgrade, Drop: "the upgrade of the workers has ended: what was brought stays, begin it again (verge upgrade)"},
		{Prefix: keyUpgraded, Drop: "how far the worker is with the upgrade is asked of it again"},
		{Prefix: keyMember, Security: true, Drop: "the plugin is not known any more, and joins again with a new token"},
		{Prefix: keySecret, With: fromRoot, Drop: "the secret is fetched from the root again"},
		{Prefix: keySealed, Drop: "it is made anew"},
		{Prefix: keyBlocks, With: fromRoot, Drop: "the blocks of addresses are fetched from the root again"},
		{Prefix: keyLease, Ask: true, Drop: "the worker says itself which addresses it has; one that is away gets others"},
		{Prefix: keyNet, Drop: "it is made anew"},
		{Prefix: keyNumber, Drop: "the application, which began here, gets another number: what runs of it gets other addresses when it is started again"},
		{Prefix: keyLeft, Ask: true, Drop: "addresses that nobody says to have are not given out any more"},
		{Prefix: keyWorker, Drop: "the worker is not known any more, as if it was removed: what it has is started elsewhere, and it joins again with a new token"},
		{Prefix: keyGone, Drop: "a key that was taken out counts again: remove or revoke the worker again at once, if it can be found"},
		{Prefix: keyRevoked, Drop: "it is made anew"},
		{Prefix: keyFarGone, With: fromRoot, Drop: "which keys of other clusters do not count is fetched from the root again; until then this one counts"},
		{Prefix: keyPublish, With: fromRoot, Drop: "what the namespace may publish is fetched from the root again"},
		{Prefix: backup.MarkKey, Instead: markedAgain, Drop: "the recovery begins anew: the root and all workers are heard again before anything is decided"},
	}
	for i, k := range own {
		if k.Read == nil {
			own[i].Fate = records.FateOf(k.Prefix, fates)
			own[i].Security = k.Security || own[i].Fate == records.Stops
		}
	}
	return slices.Concat(own, people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
}

// markedAgain is the mark of a restore whose own cannot be read.
func markedAgain(now time.Time) ([]byte, error) {
	return json.Marshal(backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0)})
}

// highCount is more local changes than any cluster has had: two of them never have the same
// number.
func highCount(now time.Time) ([]byte, error) { return json.Marshal(uint64(max(1, now.Unix()))) }

// Lost are the records of a cluster's store that cannot be read, those first that matter
// most.
func Lost(entries []bus.Entry) []records.Lost {
	m := newModel("", false, time.Time{})
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error {
		if e.Key == keyHave {
			return records.Load(e, new(haveRecord))
		}
		return m.load(e, time.Time{})
	})
}
