package rpc

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// RouteReport is how a worker routes a service when asked.
type RouteReport struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Namespace of the application.
	Namespace string          `json:"namespace,omitempty"`
	Policy    api.Policy      `json:"policy"`
	Endpoints []RouteEndpoint `json:"endpoints"`
	// MeanBody and MeanAnswer are the mean bytes of the bodies of requests and answers that
	// this worker's router saw; 0 if it saw none.
	MeanBody   float64 `json:"mean_body_bytes,omitempty"`
	MeanAnswer float64 `json:"mean_answer_bytes,omitempty"`
	// Problem says why this worker could not be asked; the rest is empty then.
	Problem string `json:"problem,omitempty"`
}

// Key of the service.
func (r *RouteReport) Key() string { return r.App + "." + r.Service }

// RouteEndpoint is one endpoint of a RouteReport.
type RouteEndpoint struct {
	Instance wire.InstanceID `json:"instance"`
	Cluster  string          `json:"cluster"`
	Worker   string          `json:"worker"`
	Address  string          `json:"address,omitempty"`
	// Local: it is on the worker that was asked.
	Local   bool `json:"local,omitempty"`
	Ordinal int  `json:"ordinal"`
	// CPU that its worker gives to instances, 0 if not known.
	CPU api.CPU `json:"cpu,omitempty"`
	// Serves is how many requests per second its worker's instances of the service answer
	// together, by the service's profile. ServesBy is the source of that. Weight is the
	// resulting weight of this one, relative to 256.
	Serves   float64 `json:"serves,omitempty"`
	ServesBy string  `json:"serves_by,omitempty"`
	Weight   float64 `json:"weight,omitempty"`
	// RTT to its worker, if Source ("measured", "estimated") says that it is known, and its
	// age.
	RTT        api.Duration `json:"rtt,omitempty"`
	Source     string       `json:"source,omitempty"`
	AgeSeconds float64      `json:"age_seconds,omitempty"`
	// Estimate is the round trip by the workers' coordinates alone.
	Estimate api.Duration `json:"estimate,omitempty"`
	// Share of new connections and requests that it is to get, 0 to 1; Recent is how many it
	// got in the last minute.
	Share  float64 `json:"share"`
	Recent int     `json:"recent"`
	// InFlight are the router's requests there now. Queue is how many wait in front of it by
	// the newest report, Capacity how many requests per second it can answer, Exec how long it
	// works on one; 0 if not known.
	InFlight int          `json:"in_flight,omitempty"`
	Queue    int          `json:"queue,omitempty"`
	Capacity float64      `json:"capacity,omitempty"`
	Exec     api.Duration `json:"exec,omitempty"`
	// Bandwidth of the line to its worker, and Back of that from it, in bytes per second,
	// measured with the newest large bodies; 0 if not known.
	Bandwidth float64 `json:"bandwidth_bytes_per_second,omitempty"`
	Back      float64 `json:"back_bytes_per_second,omitempty"`
	// Asleep: the first request starts it.
	Asleep bool `json:"asleep,omitempty"`
	// State, and Why it is not ok.
	State string `json:"state" enum:"ok,suspect,ejected,no path"`
	Why   string `json:"why,omitempty"`
}

// NetReport describes a worker's paths to others when asked.
type NetReport struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Error of the worker's own coordinate, relative; 1.5 if it knows nothing.
	Error float64   `json:"error"`
	Peers []NetPeer `json:"peers"`
	// Dropped are packets that the worker's service network refused since its engine started,
	// by reason; nil if it is not in one.
	Dropped map[string]uint64 `json:"dropped,omitempty"`
	// Problem says why the worker could not be asked; the rest is empty then.
	Problem string `json:"problem,omitempty"`
}

// NetPeer is the path to one other worker.
type NetPeer struct {
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	Address string `json:"address,omitempty"`
	// Path is PathDirect, PathRelay or PathNone, Via what carries the packets, Why why
	// it is not direct.
	Path string `json:"path"`
	Via  string `json:"via,omitempty"`
	Why  string `json:"why,omitempty"`
	// RTT, Source and AgeSeconds as in RouteEndpoint.
	RTT        api.Duration `json:"rtt,omitempty"`
	Source     string       `json:"source,omitempty"`
	AgeSeconds float64      `json:"age_seconds,omitempty"`
	// Over is what RTT was measured over, OverTunnel or OverData; "" if it was not.
	Over string `json:"over,omitempty"`
	// Estimate is the round trip by the workers' coordinates alone.
	Estimate api.Duration `json:"estimate,omitempty"`
}

// What a round trip was measured over.
const (
	// OverTunnel is the path that packets of instances take, direct or by a relay.
	OverTunnel = "tunnel"
	// OverData is the worker's data port, over TLS.
	OverData = "data port"
)

// What a worker is asked about its routes.
const (
	// AskRoute is answered by a RouteReport of the service that Ask.Instance names
	// ("<application>.<service>"), AskNet by a NetReport.
	AskRoute = "route"
	AskNet   = "net"
)
