package rest

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Principal is who asks, and for how long that is so.
type Principal struct {
	access.Who
	// Ended is closed when the caller may no longer do all of what Who says;
	// requests that are still open then are cut off. Nil: that does not happen.
	Ended <-chan struct{}
	// Left is how long it will be so at most; 0 is without end.
	Left time.Duration
}

// Backend is what a role offers over HTTP. Errors that are (or wrap) a
// *wire.Problem go to the client as they are; all others become a 500 whose
// detail is the error's text. A role that does not offer an operation returns
// Elsewhere.
type Backend interface {
	// Apply parses, checks and durably stores a descriptor. dryRun changes nothing.
	Apply(ctx context.Context, source []byte, dryRun bool) (wire.ApplyResult, error)
	// Delete starts the end of an application; durable when it returns.
	Delete(ctx context.Context, app string) error
	Applications(ctx context.Context) ([]wire.AppView, error)
	Application(ctx context.Context, app string) (wire.AppView, error)
	// Instances, of one application and service where these are not "".
	Instances(ctx context.Context, app, service string) ([]wire.InstanceView, error)
	Instance(ctx context.Context, id wire.InstanceID) (wire.InstanceView, error)
	Explain(ctx context.Context, id wire.InstanceID) (wire.Explanation, error)
	Logs(ctx context.Context, id wire.InstanceID, q wire.LogAsk) (wire.LogChunk, error)
	Clusters(ctx context.Context) ([]wire.ClusterView, error)
	Workers(ctx context.Context) ([]wire.WorkerView, error)
	// Entries are the addresses at which services are reached on a worker.
	Entries(ctx context.Context, cluster, worker string) ([]wire.EntryView, error)
	// Events after a sequence number; waits up to wait for the first.
	Events(ctx context.Context, after uint64, wait time.Duration) (wire.EventPage, error)
	Status(ctx context.Context) (wire.StatusView, error)
	CreateToken(ctx context.Context, r wire.TokenRequest) (wire.TokenReply, error)
	// Join is open to the unauthenticated: it checks the token itself.
	Join(ctx context.Context, r wire.JoinRequest) (wire.JoinReply, error)
	// Authenticate says who a bearer token is, or why it is refused.
	Authenticate(ctx context.Context, token string) (Principal, error)
	// Locate says where an object is: its namespace and its cluster, as far as it
	// has them. ok is false where there is none of that kind and name. It is asked
	// before an operation for everybody but administrators, and must be quick.
	Locate(kind access.Kind, name string) (o access.Object, ok bool)
	// Ready is nil when the role can serve; else why not.
	Ready() error
	Operating
	Rolling
	Routing
	Scaling
	Planning
	Spaces
	Vault
	Hooking
	Sites
	Backups
	Recoveries
	Looking
	Measuring
	Storing
	Using
	People
	Renewing
	Leaving
	Plugging
	Certifying
	Shelves
	Gateways
	ImageShare
	Upgrading
}

// NoGatewayToken refuses a token that is to make a gateway of what is no worker.
func NoGatewayToken(kind string) error {
	return wire.Problemf(400, "no-gateway", "ask at the cluster for a token of kind worker: verge token create --worker --gateway",
		"the token was not made", "only a worker can be a gateway, and the token is of kind %.20s", kind)
}

// OneUseToken refuses a token for several nodes of which each needs its own.
func OneUseToken() error {
	return wire.Problemf(400, "one-use", "ask at the cluster for a token of kind worker, without gateway: verge token create --worker --uses N",
		"the token was not made", "only a token with which workers join that are no gateways can be for several")
}

// Elsewhere is the error for an operation that this role does not offer, with words for the
// one that does, such as "the root".
func Elsewhere(what, where string) error {
	return elsewhere(what, where, "use a context of "+where+" (verge context use NAME)")
}

// ElsewhereAt is the error for an operation that only the named cluster offers.
func ElsewhereAt(what, cluster string) error {
	return elsewhere(what, "cluster "+cluster, ContextOf(cluster))
}

func elsewhere(what, where, remedy string) error {
	return wire.Problemf(421, "elsewhere", remedy, "this is not the place for that", "%s is done at %s", what, where)
}

// ContextOf says how to get a context of a cluster.
func ContextOf(cluster string) string {
	return "use a context of cluster " + cluster + " (verge context list shows yours); its administrator makes one with: verge user create NAME --operator " + cluster + " > FILE, which you take with: verge context use FILE"
}
