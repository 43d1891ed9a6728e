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
	Cause Cause `json:"cause,omitempty" enum:"completed,refused,updating,drained,made-room,moved,displaced,displaces,asleep,unfetched,startup,readiness,liveness,exited"`
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

	Conditions
	Reason string `json:"reason,omitempty"`
	// Cause of the last step or report, which decisions go by; see Because.
	Cause Cause `json:"cause,omitempty" enum:"completed,refused,updating,drained,made-room,moved,displaced,displaces,asleep,unfetched,startup,readiness,liveness,exited"`
	RunHistory
	Replaces string       `json:"replaces,omitempty"`
	History  []Transition `json:"history,omitempty"`
	PlacementHistory
	// Restarted is the N of the latest Restart that was asked for when this
	// incarnation was ordered, 0 if none was.
	Restarted uint64 `json:"restarted,omitempty"`
	// Program is the api.Service.ProgramID that this incarnation was ordered with.
	Program string `json:"program,omitempty"`
	Relocation
	// Secrets are the versions of its secrets that it has, as its worker reports. Never
	// modified once set.
	Secrets []SecretHeld `json:"secrets,omitempty"`
	// Job is the progress of an instance of a job; nil for all others.
	Job *JobTry `json:"job,omitempty"`
}

// Conditions of an instance, besides its state.
type Conditions struct {
	Ready       bool `json:"ready,omitempty"`
	Draining    bool `json:"draining,omitempty"`
	Unreachable bool `json:"unreachable,omitempty"`
	// ReadyAt is when it became ready, if that was during a rollout.
	ReadyAt time.Time `json:"ready_at,omitzero"`
	// Asleep: it is placed, and the first request starts it (Sleep). It stays asleep until it
	// answers. StartUp is how long that takes, if measured.
	Asleep  bool         `json:"asleep,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
}

// RunHistory is how often the program of an instance was started, and how it ended.
type RunHistory struct {
	// Restarts in place of the current incarnation, and its last exit.
	Restarts int   `json:"restarts,omitempty"`
	LastExit *Exit `json:"last_exit,omitempty"`
	// AllRestarts counts the restarts of all incarnations, in place or on another worker, after
	// the program ended or failed its check. Updates, moves by decision, lost workers and runs
	// of jobs do not count. See Again.
	AllRestarts int `json:"all_restarts,omitempty"`
	// Starts counts the known runs of all incarnations, including those after a restart in
	// place. Ran is the highest incarnation counted.
	Starts int `json:"starts,omitempty"`
	Ran    int `json:"ran,omitempty"`
}

// PlacementHistory is where an instance was, and where it must or cannot be as a result.
type PlacementHistory struct {
	// Shadow is a former placement on a worker believed lost, which may return.
	Shadow *Placement `json:"shadow,omitempty"`
	// Avoid lists workers on which this instance failed for good.
	Avoid []string `json:"avoid,omitempty"`
	// FailedProgram is the program (as Program) that failed there. Avoid and the last failure
	// in History apply only to it. "" in a record of an older version.
	FailedProgram string `json:"failed_program,omitempty"`
	// Pinned is the worker that has a named volume of this instance, which therefore runs
	// nowhere else; "" if there is none.
	Pinned string `json:"pinned,omitempty"`
	// Former is the worker that had a named volume and was removed from the cluster, until the
	// instance starts somewhere.
	Former string `json:"former,omitempty"`
	// Places are its previous placements, latest first: its logs stay there for a while. The
	// root does not learn them.
	Places []Placement `json:"places,omitempty"`
}

// Relocation of an instance: to another worker, with or without its volumes, or to another cluster.
type Relocation struct {
	// Moving is the next incarnation, on another worker, which takes over when it is ready.
	// Leaving is the previous one, which ends because another took over.
	Moving  *Move      `json:"moving,omitempty"`
	Leaving *Placement `json:"leaving,omitempty"`
	// Given is the highest incarnation ever assigned, if higher than Incarnation: no number is
	// assigned twice.
	Given int `json:"given,omitempty"`
	// Volumes is set while its named volumes move to another worker.
	Volumes *VolumeMove `json:"volumes,omitempty"`
	// VolumesEnded is how the last such move ended.
	VolumesEnded *VolumesEnded `json:"volumes_ended,omitempty"`
	// Room is set while the root is asked to run it in another cluster because it is to make
	// room.
	Room *RoomAsk `json:"room,omitempty"`
}

// RoomAsk says since when an instance is to make room, and for what.
type RoomAsk struct {
	Since time.Time `json:"since"`
	For   string    `json:"for"`
}

// Move of an instance to another worker, in progress or failed.
type Move struct {
	Worker      string    `json:"worker"`
	Incarnation int       `json:"incarnation"`
	Since       time.Time `json:"since"`
	// As those of the Instance, of this incarnation.
	Revision  uint64 `json:"revision"`
	Restarted uint64 `json:"restarted,omitempty"`
	Program   string `json:"program,omitempty"`
	// For is the part of its agreement that is violated where it is; "" if its worker is
	// drained.
	For string `json:"for,omitempty"`
	// Room: it makes room for an instance that may displace it.
	Room bool `json:"room,omitempty"`
	// Failed is why it failed, in words. It is tried again.
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

// Again returns how often the program of the instance was started again because it had ended or
// failed its check. Records of older versions count the current incarnation only.
func (i *Instance) Again() int { return max(i.AllRestarts, i.Restarts, 0) }

// Exit is how a process of an instance ended.
type Exit struct {
	// Code is the exit code; 128+n for signal n; -1 where Unknown.
	Code    int       `json:"code"`
	Signal  string    `json:"signal,omitempty"`
	OOM     bool      `json:"oom,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // nobody was there to see it
	At      time.Time `json:"at"`
	// Why its worker ended it ("liveness http /ok: 500 (3 in a row)"), or why its code is not
	// known; empty if it ended by itself or was ordered to.
	Why string `json:"why,omitempty"`
	// Attempt is the start (0-based within the incarnation) that ended.
	Attempt int `json:"attempt,omitempty"`
}

// Share is what a root delegates to a cluster for one service: the right to run
// between Min and Max instances of the given ordinals at the given revision.
type Share struct {
	V   int    `json:"v"`
	App string `json:"app"`
	// Namespace of the application; "" from a root without namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Standing of the namespace.
	Standing Standing `json:"standing,omitzero"`
	Service  string   `json:"service"`
	Revision uint64   `json:"revision"`
	Min      int      `json:"min"`
	Max      int      `json:"max"`
	// Extra are instances beyond those for the requests that enter here, for requests that
	// enter in clusters without room. Only for a service that is scaled by its requests.
	Extra    int          `json:"extra,omitempty"`
	Ordinals []Span       `json:"ordinals"`
	Spec     *api.Service `json:"spec"`
	// Restart is the latest mark for all instances, RestartOf has later ones for single
	// ordinals.
	Restart   *Restart        `json:"restart,omitempty"`
	RestartOf map[int]Restart `json:"restart_of,omitempty"`
	// Elsewhere: there are other clusters, which may take what is to make room (Instance.Room).
	// Replacing are the ordinals that the root replaces in others.
	Elsewhere bool  `json:"elsewhere,omitempty"`
	Replacing []int `json:"replacing,omitempty"`
	// Hold is what people ordered for its rollout, nil for nothing.
	Hold *Hold `json:"hold,omitempty"`
	// Waves is what happens if the root does not answer the question before a wave of its
	// rollout: HookClosed or HookOpen; "" if no hook of the root wants to be asked.
	Waves string `json:"waves,omitempty"`
	// AppNumber is the application's number in addresses, as in Order.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Parallel is how many instances of a job may run in this cluster at a time; nil: as its
	// descriptor says. Index has the indexes of ordinals that stand in for another; otherwise
	// the index is the ordinal.
	Parallel *int        `json:"parallel,omitempty"`
	Index    map[int]int `json:"index,omitempty"`
	// Stop is the latest mark that ends a run of a job; its N is from the same count as that of
	// Restart. Cron is the state with which a schedule begins here; nil: from now on.
	Stop *Restart   `json:"stop,omitempty"`
	Cron *CronStart `json:"cron,omitempty"`
	// Done answers a cluster that was restored from a backup; nil if it does not ask.
	Done *JobDone `json:"done,omitempty"`
}

// Span is a half-open range of ordinals [From, To).
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Order tells a worker about one instance it should have. The worker stops and forgets an
// instance without an order.
type Order struct {
	V   int        `json:"v"`
	ID  InstanceID `json:"id"`
	App string     `json:"app"`
	// Namespace of the application; "" from a cluster without namespaces.
	Namespace   string `json:"namespace,omitempty"`
	Service     string `json:"service"`
	Ordinal     int    `json:"ordinal"`
	Incarnation int    `json:"incarnation"`
	Revision    uint64 `json:"revision"`
	// Stop asks for a graceful end (drain, signal, grace); the order itself stays
	// until the worker has reported the end.
	Stop bool         `json:"stop,omitempty"`
	Spec *api.Service `json:"spec"`
	// AppNumber is the application's number in addresses, 1 to 1<<24 - 1; 0 from a cluster
	// without service network.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Peers are the ports of all services of the application, by service name: the source of
	// VERGE_<SERVICE>_ADDR and the loopback entries. The engine fills them in from the routes,
	// which it has for every service anyway.
	Peers map[string][]api.Port `json:"peers,omitempty"`
	// Devices that the instance has on its worker.
	Devices []Held `json:"devices,omitempty"`
	// Job is what an instance of a job learns about it; nil for all others.
	Job *JobOrder `json:"job,omitempty"`
	// Volumes is what to do with its named volumes once it is stopped; only with Stop.
	Volumes *VolumeWork `json:"volumes,omitempty"`
	// Sleep lets the instance sleep: placed, not started, with nothing reserved. Nil: it always
	// runs.
	Sleep *Sleep `json:"sleep,omitempty"`
}

// Sleep is when an instance of a service that scales to zero sleeps, and when it wakes. The
// worker does both, so that waking needs nobody else.
type Sleep struct {
	// Idle is how long it stays awake without a request.
	Idle api.Duration `json:"idle"`
	// Awake starts it when the order arrives or changes to Awake: it is known to be needed.
	// Otherwise it begins asleep.
	Awake bool `json:"awake,omitempty"`
}

// Phase of an instance as its worker sees it.
type Phase string

// Phases that a worker reports.
const (
	PhasePending Phase = "pending" // accepted, not yet started or waiting to restart
	PhaseRunning Phase = "running"
	PhaseStopped Phase = "stopped" // ended because it was asked to
	PhaseExited  Phase = "exited"  // ended by itself and is not restarted here
	PhaseRefused Phase = "refused" // refused by the worker's admission
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
	// Asleep: it is not started, or woke and does not answer yet. A request makes the worker
	// start it. StartUp is how long that took lately, rounded; 0: not known.
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
	// Why explains Phase ("waiting 4s to restart", "command not found: x"), and why a running
	// instance is not ready (`readiness http /healthz: 503 "no data" (60 of 60)`). It is
	// bounded, and not sent with each check: the count ends at 60.
	Why string `json:"why,omitempty"`
	// Cause is Why where decisions depend on it: CauseAsleep and those after it.
	Cause Cause `json:"cause,omitempty"`
	// Secrets are the versions that it has of the secrets in its files and variables, by name.
	// Never modified once set.
	Secrets []SecretHeld `json:"secrets,omitempty"`
	// Volumes is the progress of the VolumeWork of its order; nil if there is none. Never
	// modified once set.
	Volumes *VolumeReport `json:"volumes,omitempty"`
}

// Route is a service as a router sees it.
type Route struct {
	V   int    `json:"v"`
	App string `json:"app"`
	// Namespace of the application, so that a site cannot give its name to somebody else; ""
	// from a root without namespaces.
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service"`
	// Policy by its name. Routing is all of it if the name is not enough; older versions use
	// the name.
	Policy  string     `json:"policy"`
	Routing api.Policy `json:"routing,omitzero"`
	// AppNumber is the application's number in addresses, as in Order.
	AppNumber uint32 `json:"app_number,omitempty"`
	// Ports of the service, in the order of the descriptor.
	Ports     []api.Port `json:"ports"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Beyond counts endpoints for which a route has no room (MaxRouteBytes): they get no
	// requests.
	Beyond int `json:"beyond,omitempty"`
	// Export: instances of other applications may reach it. ServiceIP is its IPv4 address for
	// its default policy, if the descriptor fixes one.
	Export    bool       `json:"export,omitempty"`
	ServiceIP netip.Addr `json:"service_ip,omitzero"`
	// Unasked: the receiver has not said that it uses the service (Uses). Endpoints may exist
	// but are left out.
	Unasked bool `json:"unasked,omitempty"`
	// Lacks is why it has no endpoints, in words for its clients; "" if it has some, or the
	// reason is not known.
	Lacks string `json:"lacks,omitempty"`
	// Requests are how its requests are served.
	Requests RequestRules `json:"requests,omitzero"`
	// Where the clusters of its endpoints are, by name, if another service must be near it. The
	// root tells only clusters. At most MaxWheres.
	Where map[string]Where `json:"where,omitempty"`
}

// MaxWheres bounds Route.Where.
const MaxWheres = 64

// Where is the place of all workers of a cluster, coarser than what its root knows. Unknown
// parts are nil. Numbers of workers are left out.
type Where struct {
	Disc   *Disc   `json:"disc,omitempty"`
	Around *Around `json:"around,omitempty"`
}

// Key of a service or route: "<application>.<service>".
func (r *Route) Key() string { return r.App + "." + r.Service }

// SetPolicy sets Policy and Routing; the default is round robin.
func (r *Route) SetPolicy(p api.Policy) {
	p.Name = cmp.Or(p.Name, api.PolicyRoundRobin)
	r.Policy, r.Routing = p.Name, api.Policy{}
	if !p.Plain() {
		r.Routing = p
	}
}

// PolicyOf returns the policy that Policy and Routing describe.
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
	// Address is the data address of the worker, host:port; empty if others cannot reach it.
	Address string `json:"address,omitempty"`
	// Addrs of the instance in the service network, IPv6 first; none if its worker is not in
	// it.
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// Relay is the name of the Relay that reaches its worker if Address is empty or does not
	// answer; "" if there is none.
	Relay string `json:"relay,omitempty"`
	// CPU that its worker gives to instances, for the policy weighted; 0 if not known.
	CPU api.CPU `json:"cpu,omitempty"`
	// Serves is how many requests per second the service's instances on its worker answer
	// together, by the service's profile. ServesBy is the source of that (WeightProfile and so
	// on). 0 and "" without profile.
	Serves   float64 `json:"serves,omitempty"`
	ServesBy string  `json:"serves_by,omitempty"`
	// Suspect: its worker is silent. It is used only if nothing better exists.
	Suspect bool `json:"suspect,omitempty"`
	// Asleep: the first request starts it, which takes about StartUp (0: not known).
	Asleep  bool         `json:"asleep,omitempty"`
	StartUp api.Duration `json:"start_up,omitempty"`
	// Trial: it is of another revision, which its cluster tries on TrialShare of its requests,
	// for all its endpoints of that revision together. Routers of older versions give it as
	// many as the others.
	Trial      bool        `json:"trial,omitempty"`
	TrialShare api.Percent `json:"trial_share,omitempty"`
	// At is the Coordinate of its worker (coord.Point.Short), of services with more workers than a
	// router measures; nil if not known. Never modified once set.
	At []int32 `json:"at,omitempty"`
	// Spare: its cluster does not name it; its own worker adds it for its own router. It is
	// used only if all that the cluster names are out of rotation.
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
	// Location of the machine; nil if its operator did not set it.
	Location *api.Point `json:"location,omitempty"`
	// Uses: it says which services it uses, and needs only their endpoints.
	Uses bool `json:"uses,omitempty"`
	// Devices that it has for instances, at most api.MaxDevices.
	Devices []Device `json:"devices,omitempty"`
	// Features of its kernel: "cgroup2", "kvm", "nftables", "wireguard".
	Features []string `json:"features,omitempty"`
	// HostPaths are directories whose contents instances may use, as its operator permits.
	HostPaths []string `json:"host_paths,omitempty"`
	// Isolation is how instances that are processes are separated; nil from older workers.
	Isolation *Isolation `json:"isolation,omitempty"`
	// SealKey is the public key that secrets for it are sealed for.
	SealKey string `json:"seal_key,omitempty"`
	// Address of the data port as others reach it, host:port; "" if none.
	Address string `json:"address,omitempty"`
	// Gateway address for users; "" if the worker is no gateway.
	Gateway string `json:"gateway,omitempty"`
	// Published is what the gateway publishes besides HTTP; nil if it is none.
	Published *GatewayInfo `json:"published,omitempty"`
	// Network is the worker's part in the service network; nil from older workers.
	Network *NetworkInfo `json:"network,omitempty"`
	// Lease is its lease in the service network, so that a cluster restored from a backup knows
	// it; nil: none.
	Lease  *Lease `json:"lease,omitempty"`
	Cgroup string `json:"cgroup,omitempty"` // "v1", "v2", or why there is none
	// Engine identifies the start of the machine or engine, to tell a return after a power cut
	// from a reconnect.
	Engine string `json:"engine,omitempty"`
	// Impaired is why the worker's reports about its instances do not count now, such as an
	// engine that does not answer; "" if they do.
	Impaired string `json:"impaired,omitempty"`
	// Trust names the root authorities that the worker trusts. Expires is when its certificate
	// expires.
	Trust   string    `json:"trust,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	// Issuer names the key that signed the certificate, "" from older workers.
	Issuer string `json:"issuer,omitempty"`
	// Problems of the worker in words, at most some dozens: a port in use, a full disk. Empty
	// means all is well.
	Problems []string `json:"problems,omitempty"`
}

// Aggregate is all that a root learns about the inside of a cluster. Its size does not depend
// on the number of workers.
type Aggregate struct {
	V        int      `json:"v"`
	Workers  int      `json:"workers"` // ready ones
	Suspect  int      `json:"suspect,omitempty"`
	Cordoned int      `json:"cordoned,omitempty"` // otherwise ready; not among Workers
	Areas    []string `json:"areas,omitempty"`
	Runtimes []string `json:"runtimes,omitempty"`
	FreeCapacity
	Instances int `json:"instances"`
	// Plugins that the cluster can place by.
	Plugins []string `json:"plugins,omitempty"`
	// Capacity of all ready workers together.
	Capacity api.Resources `json:"capacity"`
	// Reflects is the revision of the desired state that these numbers include. What the root
	// delegated later must still be subtracted.
	Reflects Rev `json:"reflects"`
	// Details says whether the operator lets the root ask for logs and decisions of this
	// cluster.
	Details bool `json:"details,omitempty"`
	WorkerKinds
	// Lower is what displaceable instances reserve together, by the part of their priority that
	// counts against other namespaces, lowest first, at most MaxLower.
	Lower []PriorityUse `json:"lower,omitempty"`
	// Disc contains the ready workers that know their location, Around those that know their
	// coordinates; nil: none does.
	Disc   *Disc   `json:"disc,omitempty"`
	Around *Around `json:"around,omitempty"`
	// SealKey is the public key that secrets for the cluster are sealed for.
	SealKey string `json:"seal_key,omitempty"`
	// Gateways counts the workers, away or not, that are gateways with TLS. The cluster then
	// needs the certificates of all hosts.
	Gateways int `json:"gateways,omitempty"`
	// Site is what the operator says about the cluster as a whole.
	Site Site `json:"site,omitzero"`
	// Trust names the root authorities that the cluster trusts. Expires is when the certificate
	// of its own authority expires. Behind counts the workers, away or not, that trust others.
	Trust   string    `json:"trust,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Behind  int       `json:"behind,omitempty"`
	// Network is what the cluster needs of the service network; nil from older ones.
	Network *NetworkNeed `json:"network,omitempty"`
	// Short are the services with more demand here than instances can run, at most MaxShort.
	Short []ServiceShort `json:"short,omitempty"`
	// Entering are the services with the scheduler nearest-demand that are requested here,
	// wherever they are answered: the most requested first, at most MaxEntering.
	Entering []Entering `json:"entering,omitempty"`
	// Objects are marks of those that the cluster owns or has copies of (PackMarks).
	Objects []byte `json:"objects,omitempty"`
}

// FreeCapacity is the distribution of free capacity over the ready workers, by resource.
type FreeCapacity struct {
	CPU    Spread `json:"cpu"`
	Memory Spread `json:"memory"`
	Disk   Spread `json:"disk"`
	// VGPUs and VTPUs are thousandths of devices, In and Out the bandwidth of connections in
	// bits per second; zero if no worker reports any.
	VGPUs Spread `json:"vgpus,omitzero"`
	VTPUs Spread `json:"vtpus,omitzero"`
	In    Spread `json:"in,omitzero"`
	Out   Spread `json:"out,omitzero"`
}

// WorkerKinds counts ready workers, and their devices, by what placement asks for.
type WorkerKinds struct {
	// Architectures counts ready workers by architecture; nil: the cluster does not say. Labels
	// counts them by "key=value" of their own and their cluster's labels, the most frequent 64;
	// MoreLabels: there are others.
	Architectures map[string]int `json:"architectures,omitempty"`
	Labels        map[string]int `json:"labels,omitempty"`
	MoreLabels    bool           `json:"more_labels,omitempty"`
	// Devices counts the devices of ready workers, in use or not, by "type/model" ("type/" if
	// the model is not known), the most frequent 64; MoreDevices: there are others.
	Devices     map[string]int `json:"devices,omitempty"`
	MoreDevices bool           `json:"more_devices,omitempty"`
}

// PriorityUse is what instances of one priority reserve together. The last of MaxLower is what
// all others reserve.
type PriorityUse struct {
	Priority int           `json:"priority"`
	Used     api.Resources `json:"used"`
	// Room is, for each resource, the most that one ready worker would have free if all its
	// instances of this or lower priority made room. Zero: not reported.
	Room api.Resources `json:"room,omitzero"`
}

// MaxLower is how many priorities an Aggregate distinguishes.
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

// Disc on the surface of the Earth with some workers in it. Its centre is rounded to about a
// kilometre, so that it does not reveal where a single machine stands.
type Disc struct {
	Center   api.Point `json:"center"`
	RadiusKm float64   `json:"radius_km"`
	Workers  int       `json:"workers,omitempty"`
}

// Around is a ball in the space of round trips (Coordinate) with some workers in it. All of it
// is rounded to milliseconds, so that it reveals no single machine, and stays the same while
// coordinates move a little.
type Around struct {
	// Center is the mean of their coordinates, including Height and Error.
	Center Coordinate `json:"center"`
	// Radius is the longest distance from Center to one of them, without heights.
	Radius  api.Duration `json:"radius"`
	Workers int          `json:"workers,omitempty"`
	// Outside counts the workers that have measured others outside the cluster. If none has,
	// coordinates say nothing about distances from other clusters.
	Outside int `json:"outside,omitempty"`
}

// Spread is the distribution of a free amount (in the unit of its resource) over workers: 〈sum,
// mean, standard deviation, maximum〉.
type Spread struct {
	Sum  float64 `json:"sum"`
	Mean float64 `json:"mean"`
	Dev  float64 `json:"dev"`
	Max  float64 `json:"max"`
}

// Reported is what a cluster tells its root about an instance delegated to it. Worker is left
// out unless the operator shares details.
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
	// CPU that its worker gives to instances, for services whose policy is weighted.
	CPU api.CPU `json:"cpu,omitempty"`
	// Serves and ServesBy as in Endpoint, for services whose policy shares by weight.
	Serves   float64 `json:"serves,omitempty"`
	ServesBy string  `json:"serves_by,omitempty"`
	// Retained: its worker is away and may still run it, and nothing runs in its place. The
	// JSON names of this and of SLAViolation are those of the first version.
	Retained bool `json:"kept,omitempty"`
	// SLAViolation is why its agreement is not met there, if no other worker of the cluster is
	// expected to meet it: another cluster may.
	SLAViolation string `json:"unkept,omitempty"`
	// Trial and TrialShare as in Endpoint.
	Trial      bool        `json:"trial,omitempty"`
	TrialShare api.Percent `json:"trial_share,omitempty"`
	// Failed is why its program has failed there: two workers, or all that could run it, gave
	// up. It is tried again later.
	Failed string `json:"failed,omitempty"`
}
