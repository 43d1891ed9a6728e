package wire

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
)

// What the HTTP interface of a root and of a cluster says, and what the
// command line prints. Every view says how old it is and who says so.

// Problem is an error for people and programs (RFC 9457): what, where, why,
// what to do next.
type Problem struct {
	Status int    `json:"status"`           // HTTP status
	Code   string `json:"code"`             // stable, e.g. "token-expired"
	Title  string `json:"title"`            // what
	Detail string `json:"detail,omitempty"` // where and why
	Remedy string `json:"remedy,omitempty"` // what to do next
}

// Error puts what, why and next step on one line each.
func (p *Problem) Error() string {
	s := p.Title
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	if p.Remedy != "" {
		s += "\n  → " + p.Remedy
	}
	return s
}

// MayPass says whether the same request may succeed later: the server is busy, or has no room
// or another state at the moment. Any other refusal is for good.
func (p *Problem) MayPass() bool {
	switch p.Status {
	case 408, 409, 425, 429: // time was up, a conflict, too early, too many requests
		return true
	}
	return p.Status < 400 || p.Status >= 500
}

// Problemf makes a Problem.
func Problemf(status int, code, remedy, title string, detail string, args ...any) *Problem {
	return &Problem{Status: status, Code: code, Title: title, Detail: fmt.Sprintf(detail, args...), Remedy: remedy}
}

// Application is the stored form of an applied descriptor.
type Application struct {
	V        int    `json:"v"`
	Name     string `json:"name"`
	Revision uint64 `json:"revision"` // counts the applies that changed something, from 1
	// Source is the descriptor as it was sent; Spec is Source parsed.
	Source  string           `json:"source,omitempty"`
	Spec    *api.Application `json:"spec"`
	Created time.Time        `json:"created"`
	Applied time.Time        `json:"applied"`
	// Deleting since, zero if not. The record goes when the last instance is gone.
	Deleting time.Time `json:"deleting,omitzero"`
	// Scaled are the services whose number of replicas was set by a command, by
	// name, for as long as no file says otherwise.
	Scaled map[string]Scaled `json:"scaled,omitempty"`
	// Restarts are the latest marks of services, by name ("web"), and of single
	// instances that have later ones, by name and ordinal ("web.1").
	Restarts map[string]Restart `json:"restarts,omitempty"`
	// Stops are the latest wishes to end the run of a job, by service; their N are from the
	// same count.
	Stops map[string]Restart `json:"stops,omitempty"`
	// Changes counts the services that were added, changed, scaled or removed.
	Changes uint64 `json:"changes,omitempty"`
	// Recovered is set where a restored root learnt of it from clusters, until it is
	// applied again.
	Recovered *Recovered `json:"recovered,omitempty"`
	// Unclaimed are services that a recovering root knew to be in clusters, none of
	// which holds anything of them: they were deleted, probably, after the backup or copy
	// was made. Nothing of them is started until somebody asks for it again.
	Unclaimed []string `json:"unclaimed,omitempty"`
	// Number is the application in addresses, as in Order; 0 until it was given one.
	Number uint32 `json:"number,omitempty"`
	// By whom this revision was applied, and Why and what it Changed, in words.
	By      string   `json:"by,omitempty"`
	Why     string   `json:"why,omitempty"`
	Changed []string `json:"changed,omitempty"`
	// Held says of each service whether it has held as this revision; nil of a revision that
	// was applied with a version that did not note it.
	Held map[string]bool `json:"held,omitempty"`
	// Holds are what people said about rollouts, by service.
	Holds map[string]Hold `json:"holds,omitempty"`
	// RolledBack are the services that were brought back since their rollout failed, for
	// as long as nothing else is applied.
	RolledBack map[string]bool `json:"rolled_back,omitempty"`
}

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
	Local     []LocalChange `json:"local,omitempty"`
	Conflicts []Conflict    `json:"conflicts,omitempty"`
	// Tally counts its restarts in all clusters that have been heard, and the changes
	// that the serving tier has applied.
	Tally Tally `json:"tally"`
	// Descriptor is the text that is in force; left out of lists.
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
		others = append(others, Count(more, "more service"))
	}
	if len(others) > 0 {
		first += "; also " + strings.Join(others, ", ")
	}
	return first
}

// InstanceView is an instance as the serving tier knows it.
type InstanceView struct {
	Instance
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
	AgeSeconds float64    `json:"age_seconds"`
	Joined     time.Time  `json:"joined"`
	Version    string     `json:"version,omitempty"`
	Aggregate  *Aggregate `json:"aggregate,omitempty"`
	// Local are the changes that were made there without the root, Conflicts those
	// that gave way to it and that nobody has acknowledged yet.
	Local     []LocalChange `json:"local,omitempty"`
	Conflicts []Conflict    `json:"conflicts,omitempty"`
	// Tally counts what the cluster has done; nil: it has not said since the root
	// started. SinceAway is what of it came after it was heard of no more the last
	// time; nil: that has not happened since the root started.
	Tally     *Tally      `json:"tally,omitempty"`
	SinceAway *TallySince `json:"since_away,omitempty"`
	// ClockSkewSeconds is how far its clock is ahead of the root's; see WorkerView.
	ClockSkewSeconds float64 `json:"clock_skew_seconds,omitempty"`
	Cordon           *Cordon `json:"cordon,omitempty"`
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

// WorkerView is a worker as its cluster knows it.
type WorkerView struct {
	WorkerInfo
	Cluster    string        `json:"cluster"`
	Status     string        `json:"status" enum:"ready,suspect,never-seen"`
	AgeSeconds float64       `json:"age_seconds"`
	Used       api.Resources `json:"used"`
	Instances  int           `json:"instances"`
	// ClockSkewSeconds is how far its clock is ahead of its cluster's, negative if
	// behind; left out up to MaxSkew, or where it is not known.
	ClockSkewSeconds float64 `json:"clock_skew_seconds,omitempty"`
	Cordon           *Cordon `json:"cordon,omitempty"`
	// GatewayGrant is there where the worker may be a gateway with TLS.
	GatewayGrant *GatewayGrant `json:"gateway_grant,omitempty"`
	// Revoked since: its key does not count any more, and it has to join again.
	Revoked time.Time `json:"revoked,omitzero"`
}

// EntryView is the address at which a port of a service is reached on a worker:
// the same for as long as the worker lives, whichever instance answers there.
type EntryView struct {
	App     string `json:"app"`
	Service string `json:"service"`
	Port    string `json:"port"` // its name
	Addr    string `json:"addr"` // host:port, on the worker's own machine only
	// Problem says why nothing listens at Addr at the moment; "" if it does.
	Problem string `json:"problem,omitempty"`
}

// Event is something that happened, for people.
type Event struct {
	Seq     uint64    `json:"seq"` // grows; of the serving process
	At      time.Time `json:"at"`
	Tier    string    `json:"tier"`
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
	UpstreamAt time.Time     `json:"upstream_at,omitzero"`
	Clusters   []ClusterView `json:"clusters,omitempty"`
	Workers    []WorkerView  `json:"workers,omitempty"`
	Apps       []AppView     `json:"applications,omitempty"`
	// Local and Conflicts: see AppView; of all applications.
	Local     []LocalChange `json:"local,omitempty"`
	Conflicts []Conflict    `json:"conflicts,omitempty"`
	// Tally counts what was done in all. SinceAway (clusters only) is what of it came
	// after the root was lost the last time, or after the cluster's process started.
	Tally     Tally       `json:"tally"`
	SinceAway *TallySince `json:"since_away,omitempty"`
	// Network is the service network; nil where it is not known.
	Network *NetworkView `json:"network,omitempty"`
	// Problems in words; empty means all is well.
	Problems []string `json:"problems,omitempty"`
}

// Explanation says why an instance is where it is: the decisions of every tier,
// root first.
type Explanation struct {
	Instance  InstanceID  `json:"instance"`
	Decisions []Explained `json:"decisions"`
	// Notes say what could not be shown, and where it can be seen.
	Notes []string `json:"notes,omitempty"`
}

// Explained is one decision record (package policy/place) of one tier.
type Explained struct {
	Tier     string    `json:"tier"`
	At       time.Time `json:"at"`
	Decision any       `json:"decision"`
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

// JoinRequest is sent with a join token by a node that has no identity yet.
type JoinRequest struct {
	V     int    `json:"v"`
	Token string `json:"token" maxLength:"4096"`
	Name  string `json:"name" maxLength:"63"`
	// PublicKey is PKIX DER of the node's own key; it never leaves the node.
	PublicKey []byte `json:"public_key"`
	// NatsKey is the node's public user key for the bus.
	NatsKey string   `json:"nats_key" maxLength:"100"`
	Areas   []string `json:"areas,omitempty" maxItems:"64"`
	Version string   `json:"version,omitempty" maxLength:"100"`
}

// JoinReply is a node's identity. Nothing in it is secret.
type JoinReply struct {
	V int `json:"v"`
	// Chain is the PEM certificate chain of the node, CA the PEM of the root's
	// certificate authority. Without a chain the node keeps what it has, see
	// RenewRequest.Holds.
	Chain string `json:"chain"`
	CA    string `json:"ca"`
	// Away is the chain of another certificate for the same key, under a name that says
	// nothing: a worker shows it to nodes beyond its cluster. "" of those that make none.
	Away string `json:"away,omitempty"`
	// BusJWT is the node's credential for the bus (used with its own key), Link
	// the addresses (host:port) to connect to, LinkName their TLS server name.
	BusJWT   string   `json:"bus_jwt"`
	Link     []string `json:"link"`
	LinkName string   `json:"link_name"`
	Cluster  string   `json:"cluster"`
	Root     string   `json:"root"` // id of the root
	// API are the addresses (host:port) of the HTTP interface, where a node renews
	// that can no longer use the link.
	API []string `json:"api,omitempty"`
}

// VersionView is the answer to /v1/version.
type VersionView struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Wire    int    `json:"wire"`
}
