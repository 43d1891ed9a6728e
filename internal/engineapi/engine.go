package engineapi

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// What an agent and its engine say to each other, over a unix socket that only
// their user may open, as HTTP with JSON bodies:
//
//	PUT /v1/orders                      EngineOrders → 204 once stored and fsynced
//	PATCH /v1/orders                    EngineChanges → 204 once stored and fsynced, 409 if they are not of
//	                                    the revision that is there: all orders are sent then
//	GET /v1/state?after=N&wait=MS       → EngineState, held until Seq > N or MS is over
//	GET /v1/logs?instance=&offset=&max=&wait=MS&since=MS&times=1&previous=1&incarnation= → LogChunk
//	GET /v1/entries                     → []EntryView
//	GET /v1/metrics                     → figures of the engine, as obs.Page writes them
//	GET /v1/top                         → WorkerTop
//	GET /v1/demand?wait=MS              → Demand, held until there is some or MS is over
//	GET /v1/route?service=              → RouteReport
//	GET /v1/net                         → NetReport
//	PUT /v1/devices                     EngineDevices → 204 once instances may have them
//	POST /v1/measure                    MeasureAsk → Measured
//	POST /v1/exec                       ExecAsk → ExecAnswer
//	GET /v1/volumes                     → []VolumeView
//	DELETE /v1/volumes?namespace=&instance=&name= → 204
//	POST /v1/upgrade                    EngineUpgrade → EngineUpgraded once its successor works
//	POST /v1/shutdown                   stop every instance by its stop rule, then exit → 202
//
// The agent may die at any point of this; the engine acts on the last orders it
// stored. The engine may die too; the agent starts it again.

// Files in a worker's data directory.
const (
	EngineSocket = "engine.sock"
	EngineLog    = "engine.log"
	// InstanceLogs are the directories of the instances' logs, as a pattern of filepath.Glob.
	InstanceLogs     = "instances/*/log"
	EngineConfigFile = "engine.json"
	EngineOrdersFile = "orders.json"
	// EngineChangesFile is what changed since, see package orders.
	EngineChangesFile = "orders.log"
	IdentityDir       = "identity"
)

// EngineConfig is written by the agent before it starts the engine.
type EngineConfig struct {
	V       int    `json:"v"`
	Worker  string `json:"worker"`
	Cluster string `json:"cluster"`
	// DataAddr and GatewayAddr to listen on; "" is none.
	DataAddr    string `json:"data_addr,omitempty"`
	GatewayAddr string `json:"gateway_addr,omitempty"`
	// Gateway is the rest of how it is a gateway.
	Gateway GatewayConfig `json:"gateway,omitzero"`
	// Capacity that instances may reserve in all; admission checks it again.
	Capacity api.Resources `json:"capacity"`
	// HostPaths are the directories of which instances may use what is below.
	HostPaths []string `json:"host_paths,omitempty"`
	// HostUsers are the users of the machine, as descriptors name them, that instances
	// may run as.
	HostUsers []string `json:"host_users,omitempty"`
	// Devices that instances may have.
	Devices []DeviceNode `json:"devices,omitempty"`
	// Path is the PATH that instances get and are looked up in.
	Path string `json:"path"`
	// Network is NetworkAuto, NetworkOverlay or NetworkLoopback; "" is the last.
	Network string `json:"network,omitempty"`
	// Tunnel is how packets for other workers travel in the service network.
	Tunnel wire.TunnelConfig `json:"tunnel,omitzero"`
	// Relay is set where the worker is to be one.
	Relay wire.RelayConfig `json:"relay,omitzero"`
	// Containerd is the address of containerd's socket; "" is the usual one.
	Containerd string `json:"containerd,omitempty"`
	// Pull is how images are fetched.
	Pull      PullConfig `json:"pull,omitzero"`
	LogFormat string     `json:"log_format,omitempty"`
	LogLevel  string     `json:"log_level,omitempty"`
}

// EngineDevices are devices that have been added to the worker while its engine runs, with
// the ids that they keep.
type EngineDevices struct {
	V       int          `json:"v"`
	Devices []DeviceNode `json:"devices,omitempty"`
}

// EngineOrders is all that a worker should be doing. It replaces what was there.
type EngineOrders struct {
	V int `json:"v"`
	// Have is the revision of the cluster's desired state that this is.
	Have wire.Rev `json:"have,omitzero"`
	// Proof is what the cluster gave with it, see FetchReply.
	Proof  []byte       `json:"proof,omitempty"`
	Orders []wire.Order `json:"orders,omitempty"`
	Routes []wire.Route `json:"routes,omitempty"`
	// Network is the worker's place in the service network; nil where its cluster
	// has given it none yet.
	Network *wire.Network `json:"network,omitempty"`
	// Revoked are the keys of peers that do not count any more, as package pki
	// names them (RevokedBy).
	Revoked []string `json:"revoked,omitempty"`
	// Secrets that the orders need, sealed for the worker.
	Secrets []wire.SealedSecret `json:"secrets,omitempty"`
	// Parts of the desired state that the agent and the engine understood when all of it was
	// fetched last, see OrderParts. A cluster of a newer version sent more, which was left out.
	Parts []string `json:"parts,omitempty"`
}

// OrderParts are the parts of a desired state that EngineOrders has room for.
func OrderParts() []string {
	return []string{wire.DesiredOrder, wire.DesiredRoute, wire.DesiredSecret, wire.DesiredNetwork,
		wire.DesiredRevoked, wire.DesiredFarRevoked}
}

// EngineChanges are changes of the routes alone, which come with every endpoint that
// comes or goes anywhere.
type EngineChanges struct {
	V int `json:"v"`
	// From and To are the revisions before and after.
	From wire.Rev `json:"from,omitzero"`
	To   wire.Rev `json:"to,omitzero"`
	// Proof is what the cluster gave with To, see FetchReply.
	Proof []byte `json:"proof,omitempty"`
	// Routes that are new or changed, and the keys of those that are gone.
	Routes []wire.Route `json:"routes,omitempty"`
	Gone   []string     `json:"gone,omitempty"`
}

// With is what changes make of orders. What did not change is shared with o, and o
// stays as it is.
func (o *EngineOrders) With(c *EngineChanges) EngineOrders {
	changed := make(map[string]*wire.Route, len(c.Routes)+len(c.Gone))
	for _, key := range c.Gone {
		changed[key] = nil
	}
	for i := range c.Routes {
		changed[c.Routes[i].Key()] = &c.Routes[i]
	}
	next := *o
	next.Have, next.Proof = c.To, c.Proof
	next.Routes = make([]wire.Route, 0, len(o.Routes)+len(changed))
	for i := range o.Routes {
		key := o.Routes[i].Key()
		r, ok := changed[key]
		switch {
		case !ok:
			next.Routes = append(next.Routes, o.Routes[i])
		case r != nil:
			next.Routes = append(next.Routes, *r)
		}
		delete(changed, key)
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		if r := changed[key]; r != nil {
			next.Routes = append(next.Routes, *r)
		}
	}
	return next
}

// EngineState is what an engine says about itself.
type EngineState struct {
	V int `json:"v"`
	// Engine names this run of the engine; Seq grows with every change within it.
	Engine string `json:"engine"`
	Seq    uint64 `json:"seq"`
	// Have is the revision of the orders that the engine has stored.
	Have wire.Rev `json:"have,omitzero"`
	// Changed are the statuses that changed after the Seq asked for, Gone the
	// instances that have been forgotten since. After 0: all statuses.
	Changed []wire.InstanceStatus `json:"changed,omitempty"`
	Gone    []wire.InstanceID     `json:"gone,omitempty"`
	Info    EngineInfo            `json:"info"`
}

// EngineInfo is what an engine has found and opened.
type EngineInfo struct {
	Version  string   `json:"version"`
	PID      int      `json:"pid"`
	Runtimes []string `json:"runtimes"`
	// Missing says what a runtime can't do here ("" nothing), by runtime.
	Missing map[string]string `json:"missing,omitempty"`
	// Addresses actually listened on.
	DataAddr    string `json:"data_addr,omitempty"`
	GatewayAddr string `json:"gateway_addr,omitempty"`
	// Published is what the gateway publishes besides; nil where the worker is none.
	Published *wire.GatewayInfo `json:"published,omitempty"`
	// Network is what the engine does of the service network; nil from older ones.
	Network *wire.NetworkInfo `json:"network,omitempty"`
	// Uses are the services of which it needs the endpoints; nil from older ones, which
	// need all.
	Uses *wire.Uses `json:"uses,omitempty"`
	// Isolation is how instances that are processes are kept apart; nil from older ones,
	// which run all as their own user.
	Isolation *wire.Isolation `json:"isolation,omitempty"`
	// Problems in words: a port that is taken, a full disk.
	Problems []string `json:"problems,omitempty"`
}

// EngineUpgrade asks an engine to hand over to a successor.
type EngineUpgrade struct {
	// Program of the successor, an absolute path on the worker's machine.
	Program string `json:"program"`
	// SHA256 that the program must have, in hexadecimal; "" is any.
	SHA256 string `json:"sha256,omitempty"`
	// Drain bounds how long open connections are kept, in nanoseconds.
	Drain int64 `json:"drain"`
}

// Handover is what an engine of this program takes over from the one before, which "verge
// version -o json" says; what a program says nothing of is 1. An engine gives its successor
// no more than that: the rest would be in its way.
//
//	1: sockets for connections
//	2: those for datagrams too, while the engine before goes on answering what instances
//	   ask for names and objects
const Handover = 2

// EngineUpgraded says that an engine has handed over.
type EngineUpgraded struct {
	// From and To are the versions.
	From string `json:"from"`
	To   string `json:"to"`
	// PID of the successor.
	PID int `json:"pid"`
	// Instances that the successor has found as they were.
	Instances int `json:"instances"`
	// Connections that the former engine keeps until they end.
	Connections int `json:"connections"`
}
