package apiv1

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ApplyResult is the answer to an apply. It is given after the application is
// durable.
type ApplyResult struct {
	Name     string   `json:"name"`
	Revision uint64   `json:"revision"`
	Change   string   `json:"change" enum:"created,updated,unchanged" doc:"what the apply did"`
	Changes  int      `json:"changes" doc:"how many services it added, changed, scaled or removed"`
	Undo     uint64   `json:"undo,omitempty" doc:"the earlier revision that an undo brought back"`
	Warnings []string `json:"warnings,omitempty"`
}

// AppView is an application and how far it is.
type AppView struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Number is the application in addresses; 0 without a service network.
	Number   uint32        `json:"number,omitempty"`
	Revision uint64        `json:"revision"`
	Created  time.Time     `json:"created"`
	Applied  time.Time     `json:"applied"`
	Deleting bool          `json:"deleting,omitempty"`
	Services []ServiceView `json:"services"`
	// Holds: every service has the replicas it promises, ready, at the current
	// revision.
	Holds bool `json:"holds"`
	// Message says in words what is missing, "" if Holds.
	Message string `json:"message,omitempty"`
	// Local are the changes that were made to it at sites, Conflicts those that gave
	// way and that nobody has acknowledged yet.
	Local     []wire.LocalChange `json:"local,omitempty"`
	Conflicts []wire.Conflict    `json:"conflicts,omitempty"`
	// Tally counts its restarts in all clusters that have been heard, and the changes
	// that the serving tier has applied.
	Tally wire.Counters `json:"tally"`
	// Descriptor is the current text; left out of lists.
	Descriptor string `json:"descriptor,omitempty"`
}

// ServiceView is one service of an AppView.
type ServiceView struct {
	Name    string `json:"name"`
	Wanted  int    `json:"wanted"`
	Placed  int    `json:"placed"`
	Running int    `json:"running"`
	Ready   int    `json:"ready"`
	// Most is set where the requests decide how many run, between Wanted and Most.
	// Asleep are placed and start with the first request.
	Most    int    `json:"most,omitempty"`
	Asleep  int    `json:"asleep,omitempty"`
	Message string `json:"message,omitempty"`
	// Failed is why it cannot be expected to come to hold as applied: its program was given
	// up by two workers, or by all that could run it; or its job has failed.
	Failed   string   `json:"failed,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
	// Rollout is its phase where it is being brought to another program, "" where it is
	// not.
	Rollout string `json:"rollout,omitempty"`
	// Job is how far a job is; nil of a service that goes on.
	Job *JobView `json:"job,omitempty"`
}

// HowReady says how many of the instances that there are to be of a service are ready, and
// how many of those are as applied, where some are not: of an earlier revision, for example.
func HowReady(ready, asApplied, wanted int) string {
	if ready > asApplied {
		return fmt.Sprintf("%d of %d ready, %d of them as applied", ready, wanted, asApplied)
	}
	return fmt.Sprintf("%d of %d ready", ready, wanted)
}

// maxIncomplete is how many services the message of an application names.
const maxIncomplete = 10

// Incomplete is what an application has to say of those services that lack something: of
// the first all, of the others how many are ready, up to a bound. It is "" where none lacks
// anything.
func Incomplete(list []ServiceView) string {
	first, others, more := "", []string(nil), 0
	for _, s := range list {
		short, _, _ := strings.Cut(s.Message, "; ")
		switch {
		case s.Message == "":
		case first == "":
			first = s.Name + ": " + s.Message
		case len(others) == maxIncomplete-1:
			more++
		default:
			others = append(others, s.Name+": "+short)
		}
	}
	if more > 0 {
		others = append(others, wire.Count(more, "more service"))
	}
	if len(others) > 0 {
		first += "; also " + strings.Join(others, ", ")
	}
	return first
}

// InstanceView is an instance as the serving tier knows it.
type InstanceView struct {
	wire.Instance
	// Namespace of its application.
	Namespace string `json:"namespace,omitempty"`
	// Source tells who says so ("root", "cluster/edge") and AgeSeconds how old
	// the report is that it comes from (not the time of reading).
	Source     string  `json:"source"`
	AgeSeconds float64 `json:"age_seconds"`
	// Addrs in the service network, IPv6 first; none without it.
	Addrs []netip.Addr `json:"addrs,omitempty"`
}

// ClusterView is a cluster as the root knows it.
type ClusterView struct {
	Name      string   `json:"name"`
	Areas     []string `json:"areas,omitempty"`
	Connected bool     `json:"connected"`
	// AgeSeconds of the last report; negative if there was none since the root
	// started.
	AgeSeconds float64         `json:"age_seconds"`
	Joined     time.Time       `json:"joined"`
	Version    string          `json:"version,omitempty"`
	Aggregate  *wire.Aggregate `json:"aggregate,omitempty"`
	// Local are the changes that were made there without the root, Conflicts those
	// that gave way to it and that nobody has acknowledged yet.
	Local     []wire.LocalChange `json:"local,omitempty"`
	Conflicts []wire.Conflict    `json:"conflicts,omitempty"`
	// Tally counts what the cluster has done; nil: it has not said since the root
	// started. SinceAway is what of it came after it was heard of no more the last
	// time; nil: that has not happened since the root started.
	Tally     *wire.Counters `json:"tally,omitempty"`
	SinceAway *CountersSince `json:"since_away,omitempty"`
	// ClockSkewSeconds is how far its clock is ahead of the root's; see WorkerView.
	ClockSkewSeconds float64      `json:"clock_skew_seconds,omitempty"`
	Cordon           *wire.Cordon `json:"cordon,omitempty"`
	// Revoked since: its key does not count any more, and it has to join again.
	Revoked time.Time `json:"revoked,omitzero"`
	// Network is what the cluster has of the service network; nil: nothing.
	Network *ClusterNetwork `json:"network,omitempty"`
}

// ClusterNetwork counts what a cluster has of the service network.
type ClusterNetwork struct {
	// Numbers of workers, and IPv4 networks for them, that it can give.
	Numbers int `json:"numbers"`
	Subnets int `json:"subnets"`
	// NeedNumbers and NeedSubnets are how many of them it needs in all.
	NeedNumbers int `json:"need_numbers"`
	NeedSubnets int `json:"need_subnets"`
	Relays      int `json:"relays,omitempty"`
}

// NetworkView is the service network of a root, and how much of it is given.
type NetworkView struct {
	Prefix   netip.Prefix `json:"prefix"`
	Pool     netip.Prefix `json:"pool"`
	Services netip.Prefix `json:"services"`
	// Subnets of the pool in all, and how many of them clusters have.
	Subnets int `json:"subnets"`
	Given   int `json:"given"`
}

// Event is something that happened, for people.
type Event struct {
	Seq     uint64    `json:"seq"` // grows; of the serving process
	At      time.Time `json:"at"`
	Tier    string    `json:"tier"`
	Kind    string    `json:"kind,omitempty" doc:"such as instance.moved, see docs/events.md; earlier versions send none"`
	Subject string    `json:"subject"` // "instance/a.b.0", "cluster/edge", "worker/edge/w1", "application/a"
	What    string    `json:"what"`
	// Namespace of the application that it is about, as it was then; "" for others.
	Namespace string `json:"namespace,omitempty"`
}

// EventPage is a page of events; After is what to ask for next.
type EventPage struct {
	Events []Event `json:"events"`
	After  uint64  `json:"after"`
}

// StatusView is the state of the serving tier and of what is below it.
type StatusView struct {
	Role    string    `json:"role" enum:"root,cluster"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Time    time.Time `json:"time"`
	// Upstream is the link to the root (clusters only): "connected", or why not.
	Upstream string `json:"upstream,omitempty"`
	// UpstreamAt is when the root answered last; zero: not since this process started.
	UpstreamAt time.Time        `json:"upstream_at,omitzero"`
	Clusters   []ClusterView    `json:"clusters,omitempty"`
	Workers    []rpc.WorkerView `json:"workers,omitempty"`
	Apps       []AppView        `json:"applications,omitempty"`
	// Local and Conflicts: see AppView; of all applications.
	Local     []wire.LocalChange `json:"local,omitempty"`
	Conflicts []wire.Conflict    `json:"conflicts,omitempty"`
	// Tally counts what was done in all. SinceAway (clusters only) is what of it came
	// after the root was lost the last time, or after the cluster's process started.
	Tally     wire.Counters  `json:"tally"`
	SinceAway *CountersSince `json:"since_away,omitempty"`
	// Network is the service network; nil where it is not known.
	Network *NetworkView `json:"network,omitempty"`
	// Problems in words; empty means all is well.
	Problems []string `json:"problems,omitempty"`
}

// Explanation says why an instance is where it is: the decisions of every tier,
// root first.
type Explanation struct {
	Instance  wire.InstanceID `json:"instance"`
	Decisions []rpc.Explained `json:"decisions"`
	// Notes say what could not be shown, and where it can be seen.
	Notes []string `json:"notes,omitempty"`
}

// TokenRequest asks for a token. Kind is "cluster" (join as that cluster),
// "worker" (join this cluster), or "api" (bearer token for the HTTP interface).
type TokenRequest struct {
	Kind       string `json:"kind" enum:"cluster,worker,plugin,api"`
	Cluster    string `json:"cluster,omitempty" maxLength:"63"`
	TTLSeconds int    `json:"ttl_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"0: one hour (api: 30 days)"`
	Plugin     string `json:"plugin,omitempty" maxLength:"63" doc:"kind plugin: its name"`
	Gateway    bool   `json:"gateway,omitempty" doc:"kind worker: it may be a gateway with TLS, see allow-gateway"`
	Uses       int    `json:"uses,omitempty" minimum:"0" maximum:"100000" doc:"kind worker: how many may join with it; 0: one"`
}

// TokenReply carries the token; it is shown once and stored only as a hash.
type TokenReply struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	// ID of the token, for TokenView and to take it back; "" of older servers.
	ID string `json:"id,omitempty"`
}

// TokenView is what is kept of a token. Nothing in it is secret.
type TokenView struct {
	// ID tells it from others. Of a token for the API its first 8 characters are
	// the name of who uses it: "token/1a2b3c4d".
	ID string `json:"id"`
	// Kind as in TokenRequest, Cluster that it lets join.
	Kind    string `json:"kind" enum:"cluster,worker,plugin,api"`
	Cluster string `json:"cluster,omitempty"`
	// Plugin that it lets be one.
	Plugin string `json:"plugin,omitempty"`
	// By made it, "" if that was not noted.
	By      string    `json:"by,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires"`
	// Used is when a node joined with it, of a token for several the last; zero: it is
	// still good for one.
	Used time.Time `json:"used,omitzero"`
	// Uses is how many nodes may join with it where that is more than one, Joined how
	// many have.
	Uses   int `json:"uses,omitempty"`
	Joined int `json:"joined,omitempty"`
	// Gateway: the worker may be a gateway with TLS.
	Gateway bool `json:"gateway,omitempty"`
	// Problem is why no more than its id is known, and what to do; "" for nothing.
	Problem string `json:"problem,omitempty" doc:"why no more than its id is known: what is stored about it cannot be read, and it lets nobody in"`
}

// VersionView is the answer to /v1/version.
type VersionView struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Wire    int    `json:"wire"`
}
