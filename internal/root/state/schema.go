package state

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of the service network as the root knows it: what of it each cluster was given, and
// the numbers of applications. What is given is decided by policy/lease.
const (
	// KeyNetwork is the key of the network.
	KeyNetwork = "network" // grant.Network
	// KeyLease begins the keys of what clusters have of it.
	KeyLease = "lease." // + name + LeaseSuffix: wire.ClusterLease
	// LeaseSuffix ends the keys of leases.
	LeaseSuffix = ".net"
)

// Schema is what a root stores. Where nothing else is known a record that cannot be read
// holds the root: without an application or an instance it would end what runs.
var Schema table.Schema

// inInstance is the group of an instance and of the decision about it.
func inInstance[T any](key string, _ *T) string { return key }

// InNamespace is the group of the records of a namespace.
func InNamespace[T any](key string, _ *T) string { return "namespace/" + key }

// InApp is the group of the records of an application.
func InApp(key string, _ *record.Application) string { return "application/" + key }

// OfService is the group of a record that is derived from the instances of a service
// (APP.SERVICE). It begins with the group of each of them: where one cannot be encoded, what is
// derived stays as it is stored too.
func OfService[T any](key string, _ *T) string { return key + ".of" }

// ofShare is OfService for the key of a share (CLUSTER.APP.SERVICE).
func ofShare(key string, _ *wire.Share) string {
	cluster, service, _ := strings.Cut(key, ".")
	return service + ".of/" + cluster
}

// LeadsService is the prefix of the groups that stay as they are stored where the record of a
// service (APP.SERVICE) cannot be encoded: its share must not be stored without its schedule.
func LeadsService(key string) string { return key + "." }

// leadsOthers is LeadsService for an instance: neither without it.
func leadsOthers(id string) string { return id[:strings.LastIndexByte(id, '.')+1] }

// No cluster may be told a number or an address that is not remembered.
var (
	// NetworkTable is the service network.
	NetworkTable = table.Add(&Schema, records.Kind{
		Prefix: KeyNetwork, Fate: records.Stops,
		Drop: "the network of the root is made anew, as at a first start: all instances in the service network get " +
			"other addresses",
	}, table.Rules[grant.Network]{Stage: table.First, Single: true, Essential: true})
	// LeaseTable is what clusters have of the network, by name.
	LeaseTable = table.Add(&Schema, records.Kind{
		Prefix: KeyLease, Fate: records.Holds,
		Drop: "the cluster is given other blocks of addresses where it does not say which it has: its workers " +
			"get other addresses",
	}, table.Rules[wire.ClusterLease]{Stage: table.First, Essential: true, Suffix: LeaseSuffix})
	// An application is deleted once nothing of it is stored.
	AppTable = table.Add(&Schema, records.Kind{
		Prefix: KeyApp, Fate: records.Holds, Ask: true,
		Drop: "the application is made anew of what the clusters run of it, and nothing of it ends; its " +
			"descriptor as it was written is not known any more: apply it again",
	}, table.Rules[record.Application]{Stage: table.First, Essential: true, Group: InApp})
)

// What is decided here, a share after its instances: a cluster must never be given what the
// root does not remember having given.
var (
	instanceTable = table.Add(&Schema, records.Kind{
		Prefix: KeyInstance, Fate: records.Holds, Ask: true,
		Drop: "the instance is known again by the cluster that has it, and goes on; one that no cluster has yet is " +
			"placed anew",
	}, table.Rules[wire.Instance]{Group: inInstance[wire.Instance], Leads: leadsOthers})
	whyTable = table.Add(&Schema, records.Kind{
		Prefix: KeyWhy, Fate: records.Aside, Read: records.Reads[place.Record],
		Drop: "verge explain does not know why the instance is where it is",
	}, table.Rules[place.Record]{Group: inInstance[place.Record], Cold: true})
	shareTable = table.Add(&Schema, records.Kind{
		Prefix: KeyShare, Fate: records.Holds,
		Drop: "what the cluster is told of the service is made anew of its instances; a restart that goes " +
			"from cluster to cluster may begin with it again",
	}, table.Rules[wire.Share]{Stage: table.Derived, Group: ofShare})
	routeTable = table.Add(&Schema, records.Kind{
		Prefix: KeyRoute, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Stage: table.Derived, Group: OfService[wire.Route]})
	revokedTable = table.Add(&Schema, records.Kind{
		Prefix: KeyRevoked, Fate: records.Stops,
		Drop: "the clusters are not told any more that a key does not count, where none of them says so itself",
	}, table.Rules[wire.Revocation]{Stage: table.Derived})
)

// What people and clusters say.
var (
	// NamespaceTable is the namespaces, by name.
	NamespaceTable = table.Add(&Schema, records.Kind{
		Prefix: KeyNamespace, Fate: records.Holds,
		Drop: "the namespace and its quota are not known any more, and nobody can change what is in it " +
			"before it is made again: verge namespace create",
	}, table.Rules[record.Namespace]{Group: InNamespace[record.Namespace]})
	// ClusterTable is the clusters, by name.
	ClusterTable = table.Add[ClusterRecord](&Schema, records.Kind{
		Prefix: KeyCluster, Fate: records.Stops,
		Drop: "the cluster is not known any more, as if it was removed: what it has is started elsewhere, " +
			"and it joins again with a new token",
	})
	// GoneTable is the keys of clusters that are revoked, by hash.
	GoneTable = table.Add[enroll.Gone](&Schema, records.Kind{
		Prefix: KeyGone, Fate: records.Stops,
		Drop: "a key that was taken out counts again: remove or revoke the node again at once, if it can be found",
	})
)

// Last: a cluster counts as asked when all that it said is stored.
var (
	// SettledTable is what recoveries have settled.
	SettledTable = table.Add(&Schema, records.Kind{
		Prefix: backup.SettledKey, Fate: records.Aside,
		Drop: "a cluster that proves an old state again may begin a recovery",
	}, table.Rules[backup.Settled]{Stage: table.Last, Single: true, Essential: true})
	// MarkTable is the mark of a recovery.
	MarkTable = table.Add(&Schema, records.Kind{
		Prefix: backup.MarkKey, Fate: records.Stops, Instead: markedAgain,
		Drop: "the recovery begins anew: all clusters are asked again what they hold",
	}, table.Rules[backup.Mark]{Stage: table.Last, Single: true, Essential: true})
)

// markedAgain is the mark of a restore whose own cannot be read.
func markedAgain(now time.Time) ([]byte, error) {
	return json.Marshal(backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0)})
}
