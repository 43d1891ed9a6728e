package wire

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/api"
)

// InstanceID is "<application>.<service>.<ordinal>". Names are DNS labels, so
// the dots are unambiguous and the id is a valid key, file name and subject.
type InstanceID = string

// State of the lifecycle of an instance; package policy/life owns the
// transitions.
type State string

// The states of an instance (Oakestra §3.1, spec/hierarchy).
const (
	Registered       State = "Registered"
	Requested        State = "Requested"
	ClusterScheduled State = "ClusterScheduled"
	WorkerScheduled  State = "WorkerScheduled"
	Running          State = "Running"
	Terminated       State = "Terminated"
	Failed           State = "Failed"
)

// Transition is one step of an instance's history.
type Transition struct {
	To   State     `json:"to" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	At   time.Time `json:"at"`
	Tier string    `json:"tier"` // "root", "cluster/<name>", "worker/<name>"
	Why  string    `json:"why,omitempty"`
	// Cause is what decisions go by; see Because.
	Cause Cause `json:"cause,omitempty" enum:"completed,refused,updating,drained,made-room,moved,displaced"`
}

// Instance is the record of one replica. The tier that holds it (the root until
// ClusterScheduled, then the cluster) is its only writer.
type Instance struct {
	V       int        `json:"v"`
	ID      InstanceID `json:"id"`
	App     string     `json:"app"`
	Service string     `json:"service"`
	Ordinal int        `json:"ordinal"`
	// Incarnation counts starts by an orchestrator's decision: 1 for the first
	// placement, one more each time it is placed again or updated.
	Incarnation int `json:"incarnation"`
	// Revision of the application that this instance runs or is to run.
	Revision uint64 `json:"revision"`
	Cluster  string `json:"cluster,omitempty"`
	Worker   string `json:"worker,omitempty"`
	State    State  `json:"state" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	// Since is when State was entered, by the clock of the tier that says so.
	Since time.Time `json:"since"`

	// Conditions beside the state.
	Ready       bool `json:"ready,omitempty"`
	Draining    bool `json:"draining,omitempty"`
	Unreachable bool `json:"unreachable,omitempty"`
	// ReadyAt is since when it has been ready, where that was during a rollout.
	ReadyAt time.Time `json:"ready_at,omitzero"`
	// Asleep: it is placed, and is started by the first request (Sleep). It stays so
	// until it answers. StartUp is how long that takes, as far as it was seen.
	Asleep  bool         `json:"asleep,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`

	Reason string `json:"reason,omitempty"`
	// Cause of the last step, which decisions go by; see Because.
	Cause Cause `json:"cause,omitempty" enum:"completed,refused,updating,drained,made-room,moved,displaced"`
	// Restarts in place of the current incarnation, and what the last exit said.
	Restarts int   `json:"restarts,omitempty"`
	LastExit *Exit `json:"last_exit,omitempty"`
	// AllRestarts counts the restarts of all incarnations: its program was started again since
	// it had ended or failed its check, in place or on another worker. Updates, moves by
	// decision, lost workers and runs of jobs are none. See Again.
	AllRestarts int `json:"all_restarts,omitempty"`
	// Starts counts the runs that are known of all incarnations, those after a restart
	// in place among them. Ran is the highest incarnation that is in it.
	Starts   int          `json:"starts,omitempty"`
	Ran      int          `json:"ran,omitempty"`
	Replaces string       `json:"replaces,omitempty"`
	History  []Transition `json:"history,omitempty"`
	// Shadow is a former placement on a worker believed lost, which may return.
	Shadow *Placement `json:"shadow,omitempty"`
	// Avoid lists workers on which this instance failed for good.
	Avoid []string `json:"avoid,omitempty"`
	// FailedProgram is the program (as Program) that failed there, which Avoid and the last
	// failure in History are about: they say nothing about another one. "" of a record of an
	// older version, which does not say it.
	FailedProgram string `json:"failed_program,omitempty"`
	// Pinned is the worker that keeps a named volume of this instance, which for
	// that reason runs nowhere else; "" while it has none.
	Pinned string `json:"pinned,omitempty"`
	// Former is the worker that had a named volume and was removed from the cluster, until
	// the instance begins somewhere.
	Former string `json:"former,omitempty"`
	// Places are where it was before it was where it is now, latest first: its logs are
	// there for a while. The root is not told.
	Places []Placement `json:"places,omitempty"`
	// Restarted is the N of the latest Restart that was asked for when this
	// incarnation was ordered, 0 if none was.
	Restarted uint64 `json:"restarted,omitempty"`
	// Program is the api.Service.ProgramID that this incarnation was ordered with.
	Program string `json:"program,omitempty"`
	// Moving is the next incarnation, on another worker, which takes over when it is
	// ready. Leaving is the one before, which ends since another took over.
	Moving  *Move      `json:"moving,omitempty"`
	Leaving *Placement `json:"leaving,omitempty"`
	// Given is the highest incarnation that was ever given out, where that is higher
	// than Incarnation: a number is never given out twice.
	Given int `json:"given,omitempty"`
	// Volumes is set while its named volumes are moved to another worker.
	Volumes *VolumeMove `json:"volumes,omitempty"`
	// VolumesEnded is how the last one of these ended.
	VolumesEnded *VolumesEnded `json:"volumes_ended,omitempty"`
	// Room is set while the root is asked to run it in another cluster, since it is to make
	// room where it is.
	Room *RoomAsk `json:"room,omitempty"`
	// Secrets are the values that it has of its secrets, as its worker says. Not changed
	// once they are here.
	Secrets []SecretHeld `json:"secrets,omitempty"`
	// Job is how far an instance of a job is; nil of all others.
	Job *JobTry `json:"job,omitempty"`
}

// RoomAsk is since when an instance is to make room, and for what.
type RoomAsk struct {
	Since time.Time `json:"since"`
	For   string    `json:"for"`
}

// Move of an instance to another worker that goes on, or that failed.
type Move struct {
	Worker      string    `json:"worker"`
	Incarnation int       `json:"incarnation"`
	Since       time.Time `json:"since"`
	// As those of the Instance, of this incarnation.
	Revision  uint64 `json:"revision"`
	Restarted uint64 `json:"restarted,omitempty"`
	Program   string `json:"program,omitempty"`
	// For is what of its agreement is violated where it is; "" where its worker is
	// drained.
	For string `json:"for,omitempty"`
	// Room: it makes room where it is for one that may displace it.
	Room bool `json:"room,omitempty"`
	// Failed is why it came to nothing, in words. It is tried again.
	Failed string `json:"failed,omitempty"`
}

// Placement names where an incarnation was put.
type Placement struct {
	Worker      string    `json:"worker"`
	Incarnation int       `json:"incarnation"`
	Started     time.Time `json:"started,omitzero"`
	// Restarted and Restarts are those of the Instance, of that incarnation.
	Restarted uint64 `json:"restarted,omitempty"`
	Restarts  int    `json:"restarts,omitempty"`
}

// Again is how often the program of the instance was started again since it had ended or
// failed its check. A record of an older version knows that of its current incarnation only.
func (i *Instance) Again() int { return max(i.AllRestarts, i.Restarts, 0) }

// Exit is how a process of an instance ended.
type Exit struct {
	// Code is the exit code; 128+n for signal n; -1 where Unknown.
	Code    int       `json:"code"`
	Signal  string    `json:"signal,omitempty"`
	OOM     bool      `json:"oom,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // nobody was there to see it
	At      time.Time `json:"at"`
	// Why its worker ended it ("liveness http /ok: 500 (3 in a row)"), or why its
	// code is not known; empty where it ended by itself or was ordered to.
	Why string `json:"why,omitempty"`
	// Attempt is the start (0-based within the incarnation) that ended.
	Attempt int `json:"attempt,omitempty"`
}

// Share is what a root delegates to a cluster for one service: the right to run
// between Min and Max instances of the given ordinals at the given revision.
type Share struct {
	V   int    `json:"v"`
	App string `json:"app"`
	// Namespace of the application; "" from a root that has none.
	Namespace string `json:"namespace,omitempty"`
	// Standing of the namespace.
	Standing Standing `json:"standing,omitzero"`
	Service  string   `json:"service"`
	Revision uint64   `json:"revision"`
	Min      int      `json:"min"`
	Max      int      `json:"max"`
	// Extra are to run beyond what the requests that enter here ask for, for those that
	// enter in clusters without room. Only of a service whose requests decide.
	Extra    int          `json:"extra,omitempty"`
	Ordinals []Span       `json:"ordinals"`
	Spec     *api.Service `json:"spec"`
	// Restart is the latest mark that is for all of them, RestartOf the later ones
	// for single ordinals.
	Restart   *Restart        `json:"restart,omitempty"`
	RestartOf map[int]Restart `json:"restart_of,omitempty"`
	// Elsewhere: there are other clusters, and what is to make room (Instance.Room) may be
	// offered to them. Replacing are the ordinals that the root replaces in others.
	Elsewhere bool  `json:"elsewhere,omitempty"`
	Replacing []int `json:"replacing,omitempty"`
	// Hold is what people said about its rollout, nil for nothing.
	Hold *Hold `json:"hold,omitempty"`
	// Waves is what it means if the root does not answer when it is asked before a wave of its
	// rollout, HookClosed or HookOpen; "": no hook of the root wants to be asked.
	Waves string `json:"waves,omitempty"`
	// AppNumber is the application in addresses, as in Order.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Parallel is how many of a job may run in this cluster at a time; nil: as many as
	// its descriptor says. Index has the indexes of those ordinals that stand in for
	// another one; of all others the index is the ordinal.
	Parallel *int        `json:"parallel,omitempty"`
	Index    map[int]int `json:"index,omitempty"`
	// Stop is the latest mark by which a run of a job ends; it has its N from the same
	// count as Restart. Cron is with what a schedule begins here; nil: from now on.
	Stop *Restart   `json:"stop,omitempty"`
	Cron *CronStart `json:"cron,omitempty"`
	// Done answers a cluster that was restored from a backup; nil: it does not ask.
	Done *JobDone `json:"done,omitempty"`
}

// Span is a half-open range of ordinals [From, To).
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Order tells a worker about one instance it should have. An instance without
// an order is to be stopped and forgotten.
type Order struct {
	V   int        `json:"v"`
	ID  InstanceID `json:"id"`
	App string     `json:"app"`
	// Namespace of the application; "" from a cluster that has none.
	Namespace   string `json:"namespace,omitempty"`
	Service     string `json:"service"`
	Ordinal     int    `json:"ordinal"`
	Incarnation int    `json:"incarnation"`
	Revision    uint64 `json:"revision"`
	// Stop asks for a graceful end (drain, signal, grace); the order itself stays
	// until the worker has reported the end.
	Stop bool         `json:"stop,omitempty"`
	Spec *api.Service `json:"spec"`
	// AppNumber is the application in addresses, 1 to 1<<24 - 1; 0 from a cluster
	// that has no service network.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Peers are the ports of all services of the application, by service name:
	// what VERGE_<SERVICE>_ADDR and the loopback entries are made of. The engine
	// fills them in from the routes, which it has of every service anyway.
	Peers map[string][]api.Port `json:"peers,omitempty"`
	// Devices that the instance has on its worker.
	Devices []Held `json:"devices,omitempty"`
	// Job is what an instance of a job is told of it; nil of all others.
	Job *JobOrder `json:"job,omitempty"`
	// Volumes is what is to be done with its named volumes once it is stopped; only with
	// Stop.
	Volumes *VolumeWork `json:"volumes,omitempty"`
	// Sleep lets the instance sleep: placed, not started, with nothing reserved. Nil: it
	// runs all the time.
	Sleep *Sleep `json:"sleep,omitempty"`
}

// Sleep is when an instance of a service that may have none running sleeps, and when
// it wakes. The worker sees to both, so that waking needs nobody else.
type Sleep struct {
	// Idle is how long it is awake without a request.
	Idle api.Duration `json:"idle"`
	// Awake starts it when the order comes, or comes to say so: it is known to be
	// needed. Else it begins asleep.
	Awake bool `json:"awake,omitempty"`
}

// Phase of an instance as its worker sees it.
type Phase string

// Phases that a worker reports.
const (
	PhasePending Phase = "pending" // accepted, not started yet or waiting to restart
	PhaseRunning Phase = "running"
	PhaseStopped Phase = "stopped" // ended because it was asked to
	PhaseExited  Phase = "exited"  // ended by itself and is not to be restarted here
	PhaseRefused Phase = "refused" // admission on the worker said no
)

// InstanceStatus is what a worker reports about one instance.
type InstanceStatus struct {
	V           int        `json:"v"`
	ID          InstanceID `json:"id"`
	Incarnation int        `json:"incarnation"`
	Revision    uint64     `json:"revision"`
	Phase       Phase      `json:"phase"`
	Ready       bool       `json:"ready,omitempty"`
	Draining    bool       `json:"draining,omitempty"`
	// Asleep: it is not started, or does not answer yet since it woke. A request makes
	// the worker start it. StartUp is how long that took lately, rounded; 0: not known.
	Asleep  bool         `json:"asleep,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
	PID     int          `json:"pid,omitempty"`
	// Ports given to the instance, by port name.
	Ports map[string]int `json:"ports,omitempty"`
	// Addrs of the instance in the service network, IPv6 first; none without it.
	Addrs    []netip.Addr `json:"addrs,omitempty"`
	Restarts int          `json:"restarts,omitempty"`
	LastExit *Exit        `json:"last_exit,omitempty"`
	Started  time.Time    `json:"started,omitzero"`
	// Why explains Phase ("waiting 4s to restart", "command not found: x"), and of one that
	// runs why it is not ready (`readiness http /healthz: 503 "no data" (60 of 60)`). It
	// is bounded, and is not sent with each check: the count ends at 60.
	Why string `json:"why,omitempty"`
	// Secrets are the values that it has of the secrets in its files and variables, by
	// name. Not changed once they are here.
	Secrets []SecretHeld `json:"secrets,omitempty"`
	// Volumes is how far the VolumeWork of its order is; nil where there is none. Not
	// changed once it is here.
	Volumes *VolumeReport `json:"volumes,omitempty"`
}

// Route is a service as a router sees it.
type Route struct {
	V   int    `json:"v"`
	App string `json:"app"`
	// Namespace of the application, so that a site cannot let somebody else have its
	// name; "" from a root that says none.
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service"`
	// Policy by its name. Routing is the whole of it where the name alone does not say
	// it; who is too old for it goes by the name.
	Policy  string     `json:"policy"`
	Routing api.Policy `json:"routing,omitzero"`
	// AppNumber is the application in addresses, as in Order.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Ports of the service, in the order of the descriptor.
	Ports     []api.Port `json:"ports"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Beyond is how many more there are for which a route has no room (MaxRouteBytes): no
	// requests come to them.
	Beyond int `json:"beyond,omitempty"`
	// Export: instances of other applications may reach it. ServiceIP is its IPv4
	// address for its default policy, where the descriptor has fixed one.
	Export    bool       `json:"export,omitempty"`
	ServiceIP netip.Addr `json:"service_ip,omitzero"`
	// Unasked: whoever has this has not said that it uses the service (Uses). There may
	// be endpoints, and here are none.
	Unasked bool `json:"unasked,omitempty"`
	// Lacks is why it has no endpoints, in words for its clients; "" where it has some,
	// or nothing is known.
	Lacks string `json:"lacks,omitempty"`
	// Requests are how its requests are served.
	Requests RequestRules `json:"requests,omitzero"`
	// Where the clusters of its endpoints are, by name, where another service must be near
	// it: the root tells clusters, and nobody else. At most MaxWheres.
	Where map[string]Where `json:"where,omitempty"`
}

// MaxWheres is of how many clusters a Route says where they are.
const MaxWheres = 64

// Where the workers of a cluster are, all of them: coarser than what its root knows. A part
// of which nothing is known is nil. The numbers of workers are not told.
type Where struct {
	Disc   *Disc   `json:"disc,omitempty"`
	Around *Around `json:"around,omitempty"`
}

// Key of a service or route: "<application>.<service>".
func (r *Route) Key() string { return r.App + "." + r.Service }

// SetPolicy sets Policy and Routing; what nobody has chosen is round robin.
func (r *Route) SetPolicy(p api.Policy) {
	p.Name = cmp.Or(p.Name, api.PolicyRoundRobin)
	r.Policy, r.Routing = p.Name, api.Policy{}
	if !p.Plain() {
		r.Routing = p
	}
}

// PolicyOf is the policy that Policy and Routing say.
func (r *Route) PolicyOf() api.Policy {
	if r.Routing.Name != "" {
		return r.Routing
	}
	return api.Policy{Name: r.Policy}.Filled()
}

// Endpoint is an instance as a router sees it.
type Endpoint struct {
	Instance InstanceID `json:"instance"`
	Cluster  string     `json:"cluster"`
	Worker   string     `json:"worker"`
	// Address is the data address of the worker, host:port; empty where it has
	// none that others can reach.
	Address string `json:"address,omitempty"`
	// Addrs of the instance in the service network, IPv6 first; none where its worker
	// is not in it.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// Relay is the name of the Relay through which its worker is reached where
	// Address is empty or does not answer; "" if there is none.
	Relay string `json:"relay,omitempty"`
	// CPU that its worker gives to instances, for the policy weighted; 0 where it is
	// not known.
	CPU api.CPU `json:"cpu,omitempty"`
	// Serves is how many requests per second the instances of the service on its worker
	// answer together, by the service's profile, and ServesBy where that comes from
	// (WeightProfile and so on); 0 and "" without one.
	Serves   float64 `json:"serves,omitempty"`
	ServesBy string  `json:"serves_by,omitempty"`
	// Suspect: its worker is not heard of. It is used only where nothing better is.
	Suspect bool `json:"suspect,omitempty"`
	// Asleep: the first request starts it, which takes about StartUp (0: not known).
	Asleep  bool         `json:"asleep,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
	// Trial: it is of another revision, which its cluster tries on TrialShare of the
	// requests that come to it, all its endpoints of that revision together. A router of an
	// older version gives it as many as the others.
	Trial      bool        `json:"trial,omitempty"`
	TrialShare api.Percent `json:"trial_share,omitempty"`
	// Spare: its cluster does not name it, and its own worker adds it for its router alone.
	// It is used only where all that the cluster names are out of rotation.
	Spare bool `json:"-"`
}

// WorkerInfo is what a worker says about itself when it connects and when that
// changes.
type WorkerInfo struct {
	V        int               `json:"v"`
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Capacity api.Resources     `json:"capacity"` // after the reserve
	Arch     string            `json:"arch"`
	OS       string            `json:"os"`
	Runtimes []string          `json:"runtimes"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Location of the machine; nil where its operator did not say.
	Location *api.Point `json:"location,omitempty"`
	// Uses: it says which services it uses, and needs the endpoints of these alone.
	Uses bool `json:"uses,omitempty"`
	// Devices are the ones that it has for instances, at most api.MaxDevices.
	Devices []Device `json:"devices,omitempty"`
	// Features of its kernel: "cgroup2", "kvm", "nftables", "wireguard".
	Features []string `json:"features,omitempty"`
	// HostPaths are the directories of which instances may use what is below, by
	// its operator's leave.
	HostPaths []string `json:"host_paths,omitempty"`
	// Isolation is how instances that are processes are kept apart; nil from older workers.
	Isolation *Isolation `json:"isolation,omitempty"`
	// SealKey is the public part of the key that secrets for it are sealed for.
	SealKey string `json:"seal_key,omitempty"`
	// Address of the data port as others reach it, host:port; "" if none.
	Address string `json:"address,omitempty"`
	// Gateway address for users; "" where the worker is no gateway.
	Gateway string `json:"gateway,omitempty"`
	// Published is what the gateway publishes besides HTTP; nil where it is none.
	Published *GatewayInfo `json:"published,omitempty"`
	// Network is the worker's part in the service network; nil from older workers.
	Network *NetworkInfo `json:"network,omitempty"`
	// Lease is what it was given of the service network, so that a cluster which was
	// restored from a backup knows; nil: nothing.
	Lease  *Lease `json:"lease,omitempty"`
	Cgroup string `json:"cgroup,omitempty"` // "v1", "v2", or why there is none
	// Boot identifies the start of the machine or engine, so that a return after
	// a power cut can be told from a reconnect.
	Engine string `json:"engine,omitempty"`
	// Impaired is why nothing that the worker says about its instances counts now,
	// such as that its engine does not answer; "" if it does.
	Impaired string `json:"impaired,omitempty"`
	// Trust names the root authorities that the worker trusts, Expires is when its
	// certificate does.
	Trust   string    `json:"trust,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Issuer names the key that the certificate is signed with, "" of older workers.
	Issuer string `json:"issuer,omitempty"`
	// Problems of the worker in words, at most some dozens: a port that is taken, a
	// full disk. Empty means all is well.
	Problems []string `json:"problems,omitempty"`
}

// Aggregate is all that a root learns about the inside of a cluster.
// Its size is independent of the number of workers.
type Aggregate struct {
	V        int      `json:"v"`
	Workers  int      `json:"workers"` // ready ones
	Suspect  int      `json:"suspect,omitempty"`
	Cordoned int      `json:"cordoned,omitempty"` // ready but for that; not among Workers
	Areas    []string `json:"areas,omitempty"`
	Runtimes []string `json:"runtimes,omitempty"`
	CPU      Spread   `json:"cpu"`
	Memory   Spread   `json:"memory"`
	Disk     Spread   `json:"disk"`
	// VGPUs and VTPUs are thousandths of devices, In and Out the bandwidth of
	// connections in bits per second; zero where no worker says that it has any.
	VGPUs     Spread `json:"vgpus,omitzero"`
	VTPUs     Spread `json:"vtpus,omitzero"`
	In        Spread `json:"in,omitzero"`
	Out       Spread `json:"out,omitzero"`
	Instances int    `json:"instances"`
	// Plugins that the cluster can place by.
	Plugins []string `json:"plugins,omitempty"`
	// Capacity of all ready workers together.
	Capacity api.Resources `json:"capacity"`
	// Reflects is the revision of the desired state that these numbers already
	// include; what the root delegated after it must still be subtracted.
	Reflects Rev `json:"reflects"`
	// Details tells the root whether the operator lets it ask for logs and
	// decisions of this cluster.
	Details bool `json:"details,omitempty"`
	// Architectures counts ready workers by architecture; nil says that the cluster
	// does not tell. Labels counts them by "key=value", of the labels that they and
	// their cluster have, the most frequent 64; MoreLabels: there are others.
	Architectures map[string]int `json:"architectures,omitempty"`
	Labels        map[string]int `json:"labels,omitempty"`
	MoreLabels    bool           `json:"more_labels,omitempty"`
	// Devices counts the devices of ready workers, taken or not, by "type/model" ("type/"
	// where no model is known), the most frequent 64; MoreDevices: there are others.
	Devices     map[string]int `json:"devices,omitempty"`
	MoreDevices bool           `json:"more_devices,omitempty"`
	// Lower is what instances reserve together that can be displaced, by their priority
	// as far as it counts against other namespaces, from the lowest on, at most MaxLower.
	Lower []PriorityUse `json:"lower,omitempty"`
	// Disc has the ready workers that know their location in it; nil: none does. Around
	// has those that know their coordinates.
	Disc   *Disc   `json:"disc,omitempty"`
	Around *Around `json:"around,omitempty"`
	// SealKey is the public part of the key that secrets for the cluster are sealed
	// for.
	SealKey string `json:"seal_key,omitempty"`
	// Gateways are the workers, away or not, that are gateways with TLS: the cluster
	// needs the certificates of all hosts then.
	Gateways int `json:"gateways,omitempty"`
	// Site is what the operator says about the cluster as a whole.
	Site Site `json:"site,omitzero"`
	// Trust names the root authorities that the cluster trusts, Expires is when the
	// certificate of its own authority does. Behind are the workers, away or not,
	// that do not trust the same.
	Trust   string    `json:"trust,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Behind  int       `json:"behind,omitempty"`
	// Network is what the cluster needs of the service network; nil from older ones.
	Network *NetworkNeed `json:"network,omitempty"`
	// Short are the services that have more demand here than instances can run, at
	// most MaxShort.
	Short []ServiceShort `json:"short,omitempty"`
	// Entering are the services with the scheduler nearest-demand that are asked for
	// here, wherever they are answered, at most MaxEntering: those first that are most.
	Entering []Entering `json:"entering,omitempty"`
	// Objects are marks of those that the cluster owns or has copies of (PackMarks).
	Objects []byte `json:"objects,omitempty"`
}

// PriorityUse is what instances of one priority reserve together. Of the last of
// MaxLower it is what all others reserve.
type PriorityUse struct {
	Priority int           `json:"priority"`
	Used     api.Resources `json:"used"`
	// Room is, of each resource, the most that one ready worker would have free if all
	// instances of this priority and of lower ones made room there. Zero: not told.
	Room api.Resources `json:"room,omitzero"`
}

// MaxLower is how many priorities an Aggregate tells apart.
const MaxLower = 8

// MaxLabels is how many labels an Aggregate counts, MaxModels how many models of
// devices.
const (
	MaxLabels = 64
	MaxModels = 64
)

// Site is what an operator says about a cluster.
type Site struct {
	Operator string            `json:"operator,omitempty"`
	Location *api.Point        `json:"location,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// Disc on the surface of the Earth with some workers in it. Its centre is rounded
// to about a kilometre, so that it does not tell where a single machine stands.
type Disc struct {
	Center   api.Point `json:"center"`
	RadiusKm float64   `json:"radius_km"`
	Workers  int       `json:"workers,omitempty"`
}

// Around is a ball in the space of round trips (Coordinate) with some workers in it. All
// of it is rounded to milliseconds, so that it does not tell of a single machine, and
// stays the same while coordinates move a little.
type Around struct {
	// Center is the mean of their coordinates, its Height and Error those of theirs.
	Center Coordinate `json:"center"`
	// Radius is the longest way from Center to one of them, heights left out.
	Radius  api.Duration `json:"radius"`
	Workers int          `json:"workers,omitempty"`
	// Outside counts the workers that have measured others outside of the cluster: where
	// none has, coordinates say nothing about distances from other clusters.
	Outside int `json:"outside,omitempty"`
}

// Spread describes how an amount that is free (in the unit of its resource) is
// distributed over workers: 〈sum, mean, standard deviation, maximum〉.
type Spread struct {
	Sum  float64 `json:"sum"`
	Mean float64 `json:"mean"`
	Dev  float64 `json:"dev"`
	Max  float64 `json:"max"`
}

// Reported is what a cluster tells its root about an instance that it was
// given. Worker is left out of it unless the operator lets details leave.
type Reported struct {
	Instance
	// Address is the data address for routers of other clusters, "" if none.
	Address string `json:"address,omitempty"`
	// Peer is the opaque name under which the worker proves itself there.
	Peer string `json:"peer,omitempty"`
	// Addrs of the instance in the service network, and the relay through which its
	// worker can be reached.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	Relay string       `json:"relay,omitempty"`
	// CPU that its worker gives to instances, of services whose policy is weighted.
	CPU api.CPU `json:"cpu,omitempty"`
	// Serves and ServesBy as in Endpoint, of services whose policy shares by weight.
	Serves   float64 `json:"serves,omitempty"`
	ServesBy string  `json:"serves_by,omitempty"`
	// Retained says that its worker is away and may still run it, and that nothing runs
	// in its place. Its name in JSON, and that of SLAViolation, are those of the first version.
	Retained bool `json:"kept,omitempty"`
	// SLAViolation is why its agreement is not met there, where no other worker of the cluster
	// is expected to meet it: another cluster may.
	SLAViolation string `json:"unkept,omitempty"`
	// Trial and TrialShare as in Endpoint.
	Trial      bool        `json:"trial,omitempty"`
	TrialShare api.Percent `json:"trial_share,omitempty"`
	// Failed is why the program that it is to run has failed there: given up by two workers,
	// or by all that could run it. It is tried again later.
	Failed string `json:"failed,omitempty"`
}
