package root

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
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// schema is what a root stores. Where nothing else is known a record that cannot be read
// holds the root: without an application or an instance it would end what runs.
var schema table.Schema

// Groups of records that are stored together.
func inInstance[T any](key string, _ *T) string  { return key }
func inNamespace[T any](key string, _ *T) string { return "namespace/" + key }

func inApp(key string, _ *wire.Application) string { return "application/" + key }

// inRevised is the group of the application of a revision, whose key is APPLICATION.NUMBER.
func inRevised(key string, _ *wire.AppRevision) string {
	app, _, _ := strings.Cut(key, ".")
	return inApp(app, nil)
}

// ofService is a group that is left as it is stored with the instances of the service of that
// key; ofShare that of CLUSTER.SERVICE.
func ofService[T any](key string, _ *T) string { return key + ".of" }
func ofShare(key string, _ *wire.Share) string {
	cluster, service, _ := strings.Cut(key, ".")
	return service + ".of/" + cluster
}

// leadsService: shares say what clusters are given, and must not be stored without the
// instances or the schedule that they are of.
func leadsService(key string) string { return key + "." }
func leadsOthers(id string) string   { return id[:strings.LastIndexByte(id, '.')+1] }

// No cluster may be told a number or an address that is not remembered.
var (
	networkTable = table.Add(&schema, records.Kind{
		Prefix: networkKey, Fate: records.Stops, Drop: "the network of the root is made anew, as at a first start: all instances in the service network get other addresses",
	}, table.Rules[lease.Network]{Stage: table.First, Single: true, Essential: true})
	leaseTable = table.Add(&schema, records.Kind{
		Prefix: keyLease, Fate: records.Holds, Drop: "the cluster is given other blocks of addresses where it does not say which it has: its workers get other addresses",
	}, table.Rules[wire.ClusterLease]{Stage: table.First, Essential: true, Suffix: leaseOf})
	// An application is deleted once nothing of it is stored.
	appTable = table.Add(&schema, records.Kind{
		Prefix: keyApp, Fate: records.Holds, Ask: true, Drop: "the application is made anew of what the clusters run of it, and nothing of it ends; its descriptor as it was written is not known any more: apply it again",
	}, table.Rules[wire.Application]{Stage: table.First, Essential: true, Group: inApp})
	revisionTable = table.Add(&schema, records.Kind{
		Prefix: keyRevision, Fate: records.Aside, Drop: "one earlier revision is forgotten: no rollout undo leads to it",
	}, table.Rules[wire.AppRevision]{Stage: table.First, Group: inRevised, Keep: undescribed})
)

// What is decided here, a share after its instances: a cluster must never be given what the
// root does not remember having given.
var (
	instanceTable = table.Add(&schema, records.Kind{
		Prefix: keyInstance, Fate: records.Holds, Ask: true, Drop: "the instance is known again by the cluster that has it, and goes on; one that no cluster has yet is placed anew",
	}, table.Rules[wire.Instance]{Group: inInstance[wire.Instance], Leads: leadsOthers})
	whyTable = table.Add(&schema, records.Kind{
		Prefix: keyWhy, Fate: records.Aside, Read: records.Reads[place.Record], Drop: "verge explain does not know why the instance is where it is",
	}, table.Rules[place.Record]{Group: inInstance[place.Record], Cold: true})
	sealTable = table.Add(&schema, records.Kind{
		Prefix: keySealed, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.SealedSecret]{Keep: bare})
	overTable = table.Add(&schema, records.Kind{
		Prefix: keyOver, Fate: records.Holds, Drop: "what runs elsewhere for want of room is decided anew",
	}, table.Rules[overflow]{Group: ofService[overflow]})
	scheduleTable = table.Add(&schema, records.Kind{
		Prefix: keySchedule, Fate: records.Holds, Drop: "the schedule is given to the cluster that has the job, which goes on where it is; where that one is lost, what is due counts from now on",
	}, table.Rules[schedule]{Leads: leadsService})
	shareTable = table.Add(&schema, records.Kind{
		Prefix: keyShare, Fate: records.Holds, Drop: "what the cluster is told of the service is made anew of its instances; a restart that goes from cluster to cluster may begin with it again",
	}, table.Rules[wire.Share]{Group: ofShare})
	routeTable = table.Add(&schema, records.Kind{
		Prefix: keyRoute, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Group: ofService[wire.Route]})
	revokedTable = table.Add[wire.Revocation](&schema, records.Kind{
		Prefix: keyRevoked, Fate: records.Stops, Drop: "the clusters are not told any more that a key does not count, where none of them says so itself",
	})
	tallyTable = table.Add(&schema, records.Kind{
		Prefix: keyTally, Fate: records.Aside, Drop: "what was counted of applications that are gone is forgotten",
	}, table.Rules[wire.Tally]{Essential: true})
)

// What people and clusters say.
var (
	namespaceTable = table.Add(&schema, records.Kind{
		Prefix: keyNamespace, Fate: records.Holds, Drop: "the namespace and its quota are not known any more, and nobody can change what is in it before it is made again: verge namespace create",
	}, table.Rules[wire.Namespace]{Group: inNamespace[wire.Namespace]})
	// Written with its namespace, and read by clusters alone.
	publishTable = table.Add(&schema, records.Kind{
		Prefix: keyPublish, Fate: records.Aside, Drop: "the clusters are not told any more what the namespace may publish, until its standing is set again",
	}, table.Rules[wire.Publish]{Group: inNamespace[wire.Publish]})
	secretTable = table.Add(&schema, records.Kind{
		Prefix: keySecret, Fate: records.Aside, Drop: "the secret is not known any more, and is taken from who has it: set it again (verge secret set) at once after the start",
	}, table.Rules[wire.Secret]{Keep: bareSecret})
	clusterTable = table.Add[clusterRecord](&schema, records.Kind{
		Prefix: keyCluster, Fate: records.Stops, Drop: "the cluster is not known any more, as if it was removed: what it has is started elsewhere, and it joins again with a new token",
	})
	goneTable = table.Add[enroll.Gone](&schema, records.Kind{
		Prefix: keyGone, Fate: records.Stops, Drop: "a key that was taken out counts again: remove or revoke the node again at once, if it can be found",
	})
)

// Last: a cluster counts as asked when all that it said is stored.
var (
	settledTable = table.Add(&schema, records.Kind{
		Prefix: backup.SettledKey, Fate: records.Aside, Drop: "a cluster that proves an old state again may begin a recovery",
	}, table.Rules[backup.Settled]{Stage: table.Last, Single: true, Essential: true})
	markTable = table.Add(&schema, records.Kind{
		Prefix: backup.MarkKey, Fate: records.Stops, Instead: markedAgain, Drop: "the recovery begins anew: all clusters are asked again what they hold",
	}, table.Rules[backup.Mark]{Stage: table.Last, Single: true, Essential: true})
)

// undescribed is a revision as it is kept in memory.
func undescribed(r *wire.AppRevision) *wire.AppRevision {
	kept := *r
	kept.Descriptor = ""
	return &kept
}

// bare is what is kept in memory of a sealed value, and bareSecret of a secret.
func bare(s *wire.SealedSecret) *wire.SealedSecret {
	kept := *s
	kept.Sealed = nil
	return &kept
}

func bareSecret(s *wire.Secret) *wire.Secret {
	kept := *s
	kept.Sealed = nil
	return &kept
}

// Kinds of records in a root's store, for who drops one that cannot be read.
func Kinds() []records.Kind {
	return slices.Concat(schema.Kinds(), people.Kinds(), enroll.Kinds(), objects.Kinds(), hooks.Kinds())
}

// markedAgain is the mark of a restore whose own cannot be read.
func markedAgain(now time.Time) ([]byte, error) {
	return json.Marshal(backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0)})
}

// Lost are the records of a root's store that cannot be read, those first that matter most.
func Lost(entries []bus.Entry) []records.Lost {
	db := schema.New()
	return records.FindLost(entries, Kinds(), func(e bus.Entry) error {
		_, err := db.Load(e)
		return err
	})
}
