package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// schema is what a cluster stores. The order of the kinds is that in which a transaction
// stores them. Where nothing else is known a record that cannot be read holds the cluster:
// without a share, an instance or an order it would end what runs.
var schema table.Schema

// fromRoot goes along with what is from the root, which is fetched as a whole where it is
// not known which of it is here.
var fromRoot = []string{keyHave}

// Groups of records that are stored together.
func inRoute[T any](key string, _ *T) string    { return "route/" + key }
func inLocal[T any](key string, _ *T) string    { return "local/" + key }
func inLease[T any](key string, _ *T) string    { return "lease/" + key }
func inInstance[T any](key string, _ *T) string { return key }

// inOrdered is the group of the instance of an order, whose key is WORKER.ID.
func inOrdered(key string, _ *wire.Order) string {
	_, id, _ := strings.Cut(key, ".")
	return id
}

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
	givenTable = table.Add[wire.Share](&schema, records.Kind{
		Prefix: keyShare, Fate: records.Holds, Ask: true, With: fromRoot,
		Drop: "what runs here of the service is fetched from the root again before anything is decided, and goes on",
	})
	farTable = table.Add[wire.Route](&schema, records.Kind{
		Prefix: keyFar, Fate: records.Holds, With: fromRoot,
		Drop: "where the service is in other clusters is fetched from the root again",
	})
	farGoneTable = table.Add[wire.Revocation](&schema, records.Kind{
		Prefix: keyFarGone, Fate: records.Stops, With: fromRoot,
		Drop: "which keys of other clusters are revoked is fetched from the root again; until then this one is accepted",
	})
	secretTable = table.Add(&schema, records.Kind{
		Prefix: keySecret, Fate: records.Aside, With: fromRoot, Drop: "the secret is fetched from the root again",
	}, table.Rules[wire.SealedSecret]{Keep: bare})
	publishTable = table.Add[wire.Publish](&schema, records.Kind{
		Prefix: keyPublish, Fate: records.Aside, With: fromRoot,
		Drop: "what the namespace may publish is fetched from the root again",
	})
	blocksTable = table.Add(&schema, records.Kind{
		Prefix: keyBlocks + "net", Fate: records.Holds, With: fromRoot, Drop: "the blocks of addresses are fetched from the root again",
	}, table.Rules[wire.ClusterLease]{Single: true})
)

// What is decided here.
var (
	// Sealed values come before the orders that need them.
	sealTable = table.Add(&schema, records.Kind{
		Prefix: keySealed, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.SealedSecret]{Stage: table.First, Keep: bare})

	// No worker may be told a number or an address that is not remembered.
	netLeftTable = table.Add(&schema, records.Kind{
		Prefix: keyLeft, Fate: records.Holds, Ask: true, Drop: "addresses that no worker says it has are not given out any more",
	}, table.Rules[netLeft]{Stage: table.First, Single: true, Essential: true})
	numberTable = table.Add(&schema, records.Kind{
		Prefix: keyNumber, Fate: records.Holds,
		Drop: "the application, which began here, gets another number: what runs of it gets other addresses when it is started again",
	}, table.Rules[siteNumber]{Stage: table.First, Essential: true})
	leaseTable = table.Add(&schema, records.Kind{
		Prefix: keyLease, Fate: records.Holds, Ask: true, Drop: "the worker says itself which addresses it has; one that is away gets others",
	}, table.Rules[workerLease]{Stage: table.First, Essential: true, Group: inLease[workerLease]})
	networkTable = table.Add(&schema, records.Kind{
		Prefix: keyNet, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Network]{Stage: table.First, Essential: true, Group: inLease[wire.Network], Suffix: netOf})

	scaledTable = table.Add(&schema, records.Kind{
		Prefix: keyScaled, Fate: records.Holds, Drop: "how many instances there are to be is decided anew by the requests",
	}, table.Rules[scaled]{Stage: table.First})
	profileTable = table.Add(&schema, records.Kind{
		Prefix: keyProfile, Fate: records.Aside, Drop: "what was measured of the service is forgotten: verge profile measures it again",
	}, table.Rules[profile]{Stage: table.First})
	// Before the instance is elsewhere, or done with its volume: without them it stays.
	leftVolumeTable = table.Add(&schema, records.Kind{
		Prefix: keyLeftVolumes, Fate: records.Holds, Security: true,
		Drop: "a volume that was given up may be taken for the present one when its worker comes back: remove it there before (verge volume rm)",
	}, table.Rules[wire.LeftVolumes]{Stage: table.First, Essential: true})
	snapshotTable = table.Add(&schema, records.Kind{
		Prefix: keySnapshot, Fate: records.Aside,
		Drop: "the snapshot is an object like any other: to restore a volume from it say its digest (--sha256)",
	}, table.Rules[wire.Snapshot]{Stage: table.First})
	// Before the instances that a rollout has started, which would be updated again, and
	// before those of a run.
	rollTable = table.Add(&schema, records.Kind{
		Prefix: keyRolling, Fate: records.Holds,
		Drop: "a rollout of the service that is under way begins again from where its instances are; what people said of it (pause, undo) is asked of the root",
	}, table.Rules[rolling]{Stage: table.First, Leads: leadsService})
	jobTable = table.Add(&schema, records.Kind{
		Prefix: keyJob, Fate: records.Holds, Ask: true,
		Drop: "the runs of the job are forgotten: the root is asked which indexes have completed, and how far its schedule is",
	}, table.Rules[jobRecord]{Stage: table.First, Leads: leadsService})
	instanceTable = table.Add(&schema, records.Kind{
		Prefix: keyInstance, Fate: records.Holds, Ask: true,
		Drop: "the instance is taken over from the worker that runs it, and goes on; what was counted of it is forgotten, and one that runs nowhere is placed anew",
	}, table.Rules[wire.Instance]{Group: inInstance[wire.Instance]})
	whyTable = table.Add(&schema, records.Kind{
		Prefix: keyWhy, Fate: records.Aside, Drop: "verge explain cannot say why the instance is where it is",
	}, table.Rules[place.Record]{Group: inInstance[place.Record], Cold: true})

	routeTable = table.Add(&schema, records.Kind{
		Prefix: keyRoute, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Group: inRoute[wire.Route]})
	nameTable = table.Add(&schema, records.Kind{
		Prefix: keyName, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Group: inRoute[wire.Route]})
	orderTable = table.Add(&schema, records.Kind{
		Prefix: keyOrder, Fate: records.Holds, Ask: true, Drop: "what the worker is told of the instance is made anew",
	}, table.Rules[wire.Order]{Group: inOrdered})
	upTable = table.Add(&schema, records.Kind{
		Prefix: keyUp, Fate: records.Again, Drop: upDrop,
	}, table.Rules[wire.Reported]{Group: inInstance[wire.Reported]})

	localTable = table.Add(&schema, records.Kind{
		Prefix: keyLocal, Fate: records.Holds,
		Drop: "what was changed here of the service while the root was away is forgotten: what the root says counts, and what was begun here alone ends",
	}, table.Rules[local]{Group: inLocal[local]})
	conflictTable = table.Add(&schema, records.Kind{
		Prefix: keyConflict, Fate: records.Holds, Drop: "the conflict is forgotten",
	}, table.Rules[conflict]{Group: inConflict})
	againTable = table.Add[again](&schema, records.Kind{
		Prefix: keyAgain, Fate: records.Holds, Drop: "a restart that was asked for here is not done where it has not been yet",
	})
	localsTable = table.Add(&schema, records.Kind{
		Prefix: keyLocals, Fate: records.Holds, Instead: highCount, Drop: "changes made here are counted from a higher number",
	}, table.Rules[uint64]{Single: true})
	upLocalTable = table.Add(&schema, records.Kind{
		Prefix: keyUpLocal, Fate: records.Again, Drop: upDrop,
	}, table.Rules[wire.LocalChange]{Group: inLocal[wire.LocalChange]})
	upConflictTable = table.Add[wire.Conflict](&schema, records.Kind{Prefix: keyUpConflict, Fate: records.Again, Drop: upDrop})
	upRolloutTable  = table.Add(&schema, records.Kind{
		Prefix: keyUpRollout, Fate: records.Again, Drop: upDrop,
	}, table.Rules[wire.RolloutReport]{Group: ofService[wire.RolloutReport]})
	upJobTable = table.Add(&schema, records.Kind{
		Prefix: keyUpJob, Fate: records.Again, Drop: upDrop,
	}, table.Rules[wire.JobReport]{Group: ofService[wire.JobReport]})
	tallyTable = table.Add[wire.Tally](&schema, records.Kind{Prefix: keyTally, Fate: records.Again, Drop: upDrop})

	acmeTable = table.Add(&schema, records.Kind{
		Prefix: keyACME, Fate: records.Aside, Drop: "the certificate or account is made anew by the gateway that needs it",
	}, table.Rules[acmeRecord]{Keep: (*acmeRecord).bare})
	upgradeTable = table.Add(&schema, records.Kind{
		Prefix: keyUpgrade + theUpgrade, Fate: records.Aside,
		Drop: "the upgrade of the workers has ended: what was brought stays, begin it again (verge upgrade)",
	}, table.Rules[upgradeRecord]{Single: true})
	upgradedTable = table.Add[upgradedRecord](&schema, records.Kind{
		Prefix: keyUpgraded, Fate: records.Holds, Drop: "how far the worker is with the upgrade is asked of it again",
	})

	memberTable = table.Add[member](&schema, records.Kind{
		Prefix: keyMember, Fate: records.Aside, Security: true, Drop: "the plugin is unknown, and joins again with a new token",
	})
	goneTable = table.Add[enroll.Gone](&schema, records.Kind{
		Prefix: keyGone, Fate: records.Stops,
		Drop: "a revoked key is accepted again: remove or revoke the worker again at once, if it can be found",
	})
	workerTable = table.Add[workerRecord](&schema, records.Kind{
		Prefix: keyWorker, Fate: records.Stops,
		Drop: "the worker is unknown, as if it was removed: what it has is started elsewhere, and it joins again with a new token",
	})
	usesTable = table.Add[usesMark](&schema, records.Kind{Prefix: keyUses, Fate: records.Holds, Drop: "it is made anew"})

	// Made from goneTable for those who fetch them, and read by nobody here.
	revokedTable = table.Add(&schema, records.Kind{
		Prefix: keyRevoked, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Revocation]{Cold: true})
	upRevokedTable = table.Add(&schema, records.Kind{
		Prefix: keyUp + upRevoked, Fate: records.Again, Drop: upDrop,
	}, table.Rules[wire.Revocation]{Cold: true})

	// Last: the revision counts as taken, and a worker as heard, once all else is stored.
	haveTable = table.Add(&schema, records.Kind{
		Prefix: keyHave, Fate: records.Holds, Drop: "all that the root has decided is fetched again",
	}, table.Rules[haveRecord]{Stage: table.Last, Single: true, Essential: true})
	settledTable = table.Add(&schema, records.Kind{
		Prefix: backup.SettledKey, Fate: records.Aside, Drop: "a worker that proves an old state again may begin a recovery",
	}, table.Rules[backup.Settled]{Single: true, Essential: true, Stage: table.Last})
	markTable = table.Add(&schema, records.Kind{
		Prefix: backup.MarkKey, Fate: records.Stops, Instead: markedAgain,
		Drop: "the recovery begins anew: the root and all workers are heard again before anything is decided",
	}, table.Rules[backup.Mark]{Stage: table.Last, Single: true, Essential: true})
)

const upDrop = "it is made anew; what was counted begins at zero"

// Kinds of records in a cluster's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	return slices.Concat(schema.Kinds(), people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
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
	db := schema.New()
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error {
		_, err := db.Load(e)
		return err
	})
}
