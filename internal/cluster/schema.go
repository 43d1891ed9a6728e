package cluster

import (
	"encoding/json"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"slices"
	"time"
)

func inLocal[T any](key string, _ *T) string { return "local/" + key }

// ofService is a group that is left as it is with the service of that key, as the instances
// of the service are.
func ofService[T any](key string, _ *T) string { return key + ".reported" }

// leadsService: instances of a service belong to what its record would say.
func leadsService(key string) string { return key + "." }

// conflict is stored with the change that it was.
func inConflict(key string, c *conflict) string {
	if c == nil {
		return "conflict/" + key
	}
	return inLocal(c.Local.key(), c)
}

// What is from the root.
var (
	publishTable = table.Add[wire.Publish](&state.Schema, records.Kind{
		Prefix: keyPublish, Fate: records.Aside, With: state.FromRoot,
		Drop: "what the namespace may publish is fetched from the root again",
	})
)

// What is decided here.
var (
	scaledTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyScaled, Fate: records.Holds, Drop: "how many instances there are to be is decided anew by the requests",
	}, table.Rules[scaled]{Stage: table.First})
	profileTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyProfile, Fate: records.Aside, Drop: "what was measured of the service is forgotten: verge profile measures it again",
	}, table.Rules[profile]{Stage: table.First})
	// Before the instance is elsewhere, or done with its volume: without them it stays.
	leftVolumeTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyLeftVolumes, Fate: records.Holds, Security: true,
		Drop: "a volume that was given up may be taken for the present one when its worker comes back: remove it there before (verge volume rm)",
	}, table.Rules[wire.LeftVolumes]{Stage: table.First, Essential: true})
	snapshotTable = table.Add(&state.Schema, records.Kind{
		Prefix: keySnapshot, Fate: records.Aside,
		Drop: "the snapshot is an object like any other: to restore a volume from it say its digest (--sha256)",
	}, table.Rules[wire.Snapshot]{Stage: table.First})
	// Before the instances that a rollout has started, which would be updated again, and
	// before those of a run.
	rollTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyRolling, Fate: records.Holds,
		Drop: "a rollout of the service that is under way begins again from where its instances are; what people said of it (pause, undo) is asked of the root",
	}, table.Rules[rolling]{Stage: table.First, Leads: leadsService})
	jobTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyJob, Fate: records.Holds, Ask: true,
		Drop: "the runs of the job are forgotten: the root is asked which indexes have completed, and how far its schedule is",
	}, table.Rules[jobRecord]{Stage: table.First, Leads: leadsService})

	localTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyLocal, Fate: records.Holds,
		Drop: "what was changed here of the service while the root was away is forgotten: what the root says counts, and what was begun here alone ends",
	}, table.Rules[local]{Group: inLocal[local]})
	conflictTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyConflict, Fate: records.Holds, Drop: "the conflict is forgotten",
	}, table.Rules[conflict]{Group: inConflict})
	againTable = table.Add[again](&state.Schema, records.Kind{
		Prefix: keyAgain, Fate: records.Holds, Drop: "a restart that was asked for here is not done where it has not been yet",
	})
	localsTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyLocals, Fate: records.Holds, Instead: highCount, Drop: "changes made here are counted from a higher number",
	}, table.Rules[uint64]{Single: true})
	upLocalTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyUpLocal, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.LocalChange]{Group: inLocal[wire.LocalChange]})
	upConflictTable = table.Add[wire.Conflict](&state.Schema, records.Kind{Prefix: keyUpConflict, Fate: records.Again, Drop: state.UpDrop})
	upRolloutTable  = table.Add(&state.Schema, records.Kind{
		Prefix: keyUpRollout, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.RolloutReport]{Group: ofService[wire.RolloutReport]})
	upJobTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyUpJob, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.JobReport]{Group: ofService[wire.JobReport]})

	acmeTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyACME, Fate: records.Aside, Drop: "the certificate or account is made anew by the gateway that needs it",
	}, table.Rules[acmeRecord]{Keep: (*acmeRecord).bare})
	upgradeTable = table.Add(&state.Schema, records.Kind{
		Prefix: keyUpgrade + theUpgrade, Fate: records.Aside,
		Drop: "the upgrade of the workers has ended: what was brought stays, begin it again (verge upgrade)",
	}, table.Rules[upgradeRecord]{Single: true})
	upgradedTable = table.Add[upgradedRecord](&state.Schema, records.Kind{
		Prefix: keyUpgraded, Fate: records.Holds, Drop: "how far the worker is with the upgrade is asked of it again",
	})

	memberTable = table.Add[member](&state.Schema, records.Kind{
		Prefix: keyMember, Fate: records.Aside, Security: true, Drop: "the plugin is unknown, and joins again with a new token",
	})

	usesTable = table.Add[usesMark](&state.Schema, records.Kind{Prefix: keyUses, Fate: records.Holds, Drop: "it is made anew"})
)

// Kinds of records in a cluster's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	return slices.Concat(state.Schema.Kinds(), people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
}

// highCount is more local changes than any cluster has had: two of them never have the same
// number.
func highCount(now time.Time) ([]byte, error) { return json.Marshal(uint64(max(1, now.Unix()))) }

// Lost are the records of a cluster's store that cannot be read, those first that matter
// most.
func Lost(entries []bus.Entry) []records.Lost {
	db := state.Schema.New()
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error {
		_, err := db.Load(e)
		return err
	})
}
