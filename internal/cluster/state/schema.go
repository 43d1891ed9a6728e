package state

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of records in a cluster's store. Those of single parts are with the parts.
const (
	KeyHave     = "have"                        // the revision of the root's desired state that is stored, with its proof
	KeyShare    = "share."                      // + app.service: wire.Share, from the root
	KeyFar      = "far."                        // + app.service: wire.Route, from the root
	KeyFarGone  = "fargone."                    // + who says so.hash of a key: wire.Revocation, from the root
	KeyInstance = "inst."                       // + id: wire.Instance
	KeyWhy      = "why."                        // + id: place.Record
	KeyOrder    = "to."                         // + worker.id: wire.Order
	KeyRoute    = "route."                      // + app.service: wire.Route, for the workers
	KeyName     = "name."                       // + app.service: wire.Route without endpoints, for the workers
	KeyUp       = "up."                         // + id: wire.Reported, for the root
	KeyWorker   = "worker."                     // + name: WorkerRecord
	KeyGone     = "gone."                       // + hash of a key: enroll.Gone, of this cluster's own
	KeyRevoked  = "revoked."                    // + hash of a key: wire.Revocation, the same for the workers
	UpRevoked   = wire.ReportedRevoked          // + hash, after KeyUp: the same for the root, see exchange.StoreSource
	KeyCounters = KeyUp + wire.ReportedCounters // + app: wire.Counters, for the root
)

// Schema is what a cluster stores. The order of the kinds is that in which a transaction
// stores them. Where nothing else is known a record that cannot be read holds the cluster:
// without a share, an instance or an order it would end what runs.
var Schema table.Schema

// FromRoot goes along with what is from the root, which is fetched as a whole where it is
// not known which of it is here.
var FromRoot = []string{KeyHave}

// inRoute: a route and its name are stored together.
func inRoute[T any](key string, _ *T) string { return "route/" + key }

// inInstance: what is stored of an instance is stored together.
func inInstance[T any](key string, _ *T) string { return key }

// inOrdered is the group of the instance of an order, whose key is WORKER.ID.
func inOrdered(key string, _ *wire.Order) string {
	_, id, _ := strings.Cut(key, ".")
	return id
}

// Tables of what all parts of a cluster know.
var (
	FromRootTable = table.Add[wire.Share](&Schema, records.Kind{
		Prefix: KeyShare, Fate: records.Holds, Ask: true, With: FromRoot,
		Drop: "what runs here of the service is fetched from the root again before anything is decided, and goes on",
	})
	FarTable = table.Add[wire.Route](&Schema, records.Kind{
		Prefix: KeyFar, Fate: records.Holds, With: FromRoot,
		Drop: "where the service is in other clusters is fetched from the root again",
	})
	FarGoneTable = table.Add[wire.Revocation](&Schema, records.Kind{
		Prefix: KeyFarGone, Fate: records.Stops, With: FromRoot,
		Drop: "which keys of other clusters are revoked is fetched from the root again; until then this one is accepted",
	})
	InstanceTable = table.Add(&Schema, records.Kind{
		Prefix: KeyInstance, Fate: records.Holds, Ask: true,
		Drop: "the instance is taken over from the worker that runs it, and goes on; what was counted of it is " +
			"forgotten, and one that runs nowhere is placed anew",
	}, table.Rules[wire.Instance]{Group: inInstance[wire.Instance]})
	WhyTable = table.Add(&Schema, records.Kind{
		Prefix: KeyWhy, Fate: records.Aside, Read: records.Reads[place.Record],
		Drop: "verge explain cannot say why the instance is where it is",
	}, table.Rules[place.Record]{Group: inInstance[place.Record], Cold: true})
	RouteTable = table.Add(&Schema, records.Kind{
		Prefix: KeyRoute, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Group: inRoute[wire.Route]})
	NameTable = table.Add(&Schema, records.Kind{
		Prefix: KeyName, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Route]{Group: inRoute[wire.Route]})
	OrderTable = table.Add(&Schema, records.Kind{
		Prefix: KeyOrder, Fate: records.Holds, Ask: true, Drop: "what the worker is told of the instance is made anew",
	}, table.Rules[wire.Order]{Group: inOrdered})
	UpTable = table.Add(&Schema, records.Kind{
		Prefix: KeyUp, Fate: records.Again, Drop: UpDrop,
	}, table.Rules[wire.Reported]{Group: inInstance[wire.Reported]})
	CountersTable = table.Add[wire.Counters](&Schema, records.Kind{Prefix: KeyCounters, Fate: records.Again, Drop: UpDrop})
	GoneTable     = table.Add[enroll.Gone](&Schema, records.Kind{
		Prefix: KeyGone, Fate: records.Stops,
		Drop: "a revoked key is accepted again: remove or revoke the worker again at once, if it can be found",
	})
	WorkerTable = table.Add[WorkerRecord](&Schema, records.Kind{
		Prefix: KeyWorker, Fate: records.Stops,
		Drop: "the worker is unknown, as if it was removed: what it has is started elsewhere, and it joins again with a new token",
	})
	// Made from GoneTable for those who fetch them, and read by nobody here.
	RevokedTable = table.Add(&Schema, records.Kind{
		Prefix: KeyRevoked, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Revocation]{Cold: true})
	UpRevokedTable = table.Add(&Schema, records.Kind{
		Prefix: KeyUp + UpRevoked, Fate: records.Again, Drop: UpDrop,
	}, table.Rules[wire.Revocation]{Cold: true})
	// Last: the revision counts as taken, and a worker as heard, once all else is stored.
	HaveTable = table.Add(&Schema, records.Kind{
		Prefix: KeyHave, Fate: records.Holds, Drop: "all that the root has decided is fetched again",
	}, table.Rules[HaveRecord]{Stage: table.Last, Single: true, Essential: true})
	SettledTable = table.Add(&Schema, records.Kind{
		Prefix: backup.SettledKey, Fate: records.Aside,
		Drop: "a worker that proves an old state again may begin a recovery",
	}, table.Rules[backup.Settled]{Single: true, Essential: true, Stage: table.Last})
	MarkTable = table.Add(&Schema, records.Kind{
		Prefix: backup.MarkKey, Fate: records.Stops, Instead: markedAgain,
		Drop: "the recovery begins anew: the root and all workers are heard again before anything is decided",
	}, table.Rules[backup.Mark]{Stage: table.Last, Single: true, Essential: true})
)

// UpDrop is what follows when what the root is told is dropped.
const UpDrop = "it is made anew; what was counted begins at zero"

// markedAgain is the mark of a restore whose own cannot be read.
func markedAgain(now time.Time) ([]byte, error) {
	return json.Marshal(backup.Mark{V: wire.Version, At: now.Round(0), Made: now.Round(0)})
}

// KeyPublish + namespace is the key of what it may publish, from the root.
const KeyPublish = "publish."

// OfService is a group that is left as it is with the service of that key, as the instances
// of the service are.
func OfService[T any](key string, _ *T) string { return key + ".reported" }

// LeadsService leads the groups of the instances of a service: instances of a service belong to what its record would say.
func LeadsService(key string) string { return key + "." }

// What is from the root.
var PublishTable = table.Add[wire.Publish](&Schema, records.Kind{
	Prefix: KeyPublish, Fate: records.Aside, With: FromRoot,
	Drop: "what the namespace may publish is fetched from the root again",
})
