package place

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/policy/place/waste"
	"github.com/verge-edge/verge/internal/wire"
)

// Threshold is the greatest allowed latency or distance to something, with what is
// known of its position. It removes workers under any scheduler.
type Threshold struct {
	// To is what the descriptor names: a service, a place or an address.
	To string `json:"to"`
	// Max is the longest round trip, Distance the longest great circle; 0: unlimited.
	Max      api.Duration `json:"max,omitempty"`
	Distance api.Distance `json:"distance,omitempty"`
	// Wish: there is no bound and no worker is removed. Under any scheduler, workers with
	// shorter round trips come first, by whole milliseconds.
	Wish bool `json:"wish,omitempty"`
	// Targets, at least one of which must be within both Max and Distance.
	Targets []Target `json:"targets,omitempty"`
	// Free is why the threshold does not apply now, such as that the service has no
	// instance yet; "" if it applies.
	Free string `json:"free,omitempty"`
	// Unknown is why the positions of the targets are unknown; "" if they are known.
	Unknown string `json:"unknown,omitempty"`
}

// Target is one thing to be near.
type Target struct {
	// ID of an instance, or an address.
	ID string `json:"id"`
	// Worker that has it, "" if none of this cluster has; its own distance is zero.
	Worker string `json:"worker,omitempty"`
	// Far names the worker of another cluster that has it, "" where none does.
	Far string `json:"far,omitempty"`
	// Cluster that has it, where the root decides: Location and Coord are then the centre
	// of its workers, which are within RadiusKm and Radius of it. Whole: all of them are
	// known to be within RadiusKm. "" where a cluster decides; then a target with Far set
	// is anywhere within RadiusKm of Location.
	Cluster  string       `json:"cluster,omitempty"`
	RadiusKm float64      `json:"radius_km,omitempty"`
	Radius   api.Duration `json:"radius,omitempty"`
	Whole    bool         `json:"whole,omitempty"`
	// Coord is its position in the space of round trips, nil if unknown. Margin is by how
	// much the round trip may exceed the estimate from Coord.
	Coord  *wire.Coordinate `json:"coord,omitempty"`
	Margin api.Duration     `json:"margin,omitempty"`
	// Place: it is a place on the Earth, to which the round trip is estimated (PlaceRTT).
	Place bool `json:"place,omitempty"`
	// Direct are measured round trips by worker; they take precedence over Coord.
	Direct map[string]api.Duration `json:"direct,omitempty"`
	// Location on the Earth, nil if unknown.
	Location *api.Point `json:"location,omitempty"`
}

// Traffic is where the requests for a service enter, and who answers them.
type Traffic struct {
	// Points are where requests enter, at most MaxEntries.
	Points []Entry `json:"points"`
	// Replicas counts those that already answer, by worker, without the one being placed.
	Replicas map[string]int `json:"replicas,omitempty"`
	// Exec is how long a replica works on a request, RPS how many requests per second it
	// handles if its worker has no profile; 0 if unknown.
	Exec api.Duration `json:"exec,omitempty"`
	RPS  float64      `json:"rps,omitempty"`
}

// Entry is where requests enter.
type Entry struct {
	At Target `json:"at"`
	// Rate in requests per second.
	Rate float64 `json:"rate"`
}

// ClusterView is what the root knows of a cluster when it decides.
type ClusterView struct {
	ID        string   `json:"id"`
	Areas     []string `json:"areas,omitempty"`
	Runtimes  []string `json:"runtimes,omitempty"`
	Connected bool     `json:"connected"`
	// Cordoned clusters are given nothing new.
	Cordoned  bool           `json:"cordoned,omitempty"`
	Aggregate wire.Aggregate `json:"aggregate"`
	// Pending are reservations delegated since Aggregate was made.
	Pending api.Resources `json:"pending,omitzero"`
	// Same counts instances of the service being placed that it already has.
	Same int `json:"same,omitempty"`
	// Entering is how many requests per second for that service enter there, as far as the
	// cluster reports it, for the scheduler nearest-demand.
	Entering float64 `json:"entering,omitempty"`
	// Lacks counts the objects of Request.Data that are not there.
	Lacks int `json:"lacks,omitempty"`
	// Refused is why the cluster recently returned an instance of this service.
	Refused string `json:"refused,omitempty"`
}

// WorkerView is what a cluster knows of a worker when it decides.
type WorkerView struct {
	ID       string        `json:"id"`
	Runtimes []string      `json:"runtimes,omitempty"`
	Capacity api.Resources `json:"capacity"`
	Used     api.Resources `json:"used"` // reserved by instances placed there
	// Suspect or cordoned workers take nothing new.
	Suspect  bool `json:"suspect,omitempty"`
	Cordoned bool `json:"cordoned,omitempty"`
	// Arch is its GOARCH; Labels are its own and those of its cluster; Location is nil
	// if unknown.
	Arch     string            `json:"arch,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Location *api.Point        `json:"location,omitempty"`
	// Coord is its position in the space of round trips, nil if unknown.
	Coord *wire.Coordinate `json:"coord,omitempty"`
	// HostPaths are the directories that instances may use, with everything below.
	HostPaths []string `json:"host_paths,omitempty"`
	// HostUsers are the users of the machine that processes may run as.
	HostUsers []string `json:"host_users,omitempty"`
	// Devices that it has, and how much of each is taken. Capacity.VGPUs and VTPUs are
	// their sums: a GPU that is not listed is never allocated.
	Devices []device.Device `json:"devices,omitempty"`
	// Overlay: it is part of the service network.
	Overlay bool `json:"overlay,omitempty"`
	// Conflicts are the services it runs that the one being placed excludes, or that
	// exclude it (anti_affinity.service), and the ports it would share with a service
	// there (PortTaken).
	Conflicts []string `json:"conflicts,omitempty"`
	// Same counts instances of the service being placed that it already has.
	Same int `json:"same,omitempty"`
	// Throughput is the profiled requests per second of that service on this worker; 0 if
	// unknown.
	Throughput float64 `json:"throughput,omitempty"`
}

// Request is what is to be placed.
type Request struct {
	Instance  wire.InstanceID `json:"instance"`        // root: "<app>.<service>"
	Count     int             `json:"count,omitempty"` // root: how many replicas; cluster: 1
	Runtime   string          `json:"runtime"`
	Demand    api.Resources   `json:"demand"`
	Affinity  api.Affinity    `json:"affinity,omitzero"`
	Spread    string          `json:"spread"` // "soft" or "none"
	Scheduler string          `json:"scheduler"`
	// Plugin that decides if Scheduler is "plugin", and its answer; Advice is nil before
	// it was asked.
	Plugin string   `json:"plugin,omitempty"`
	Advice *Advice  `json:"advice,omitempty"`
	Avoid  []string `json:"avoid,omitempty"`
	// Further constraints, as in the descriptor; empty: none.
	Architecture []string         `json:"architecture,omitempty"`
	Location     *api.Location    `json:"location,omitempty"`
	AntiAffinity api.AntiAffinity `json:"anti_affinity,omitzero"`
	// Devices it needs besides those of Demand, and the models of both.
	Devices []api.DeviceNeed `json:"devices,omitempty"`
	// Priority over what is already placed (see Preempt).
	Priority int `json:"priority,omitempty"`
	// HostPaths are directories of the worker that the instance uses.
	HostPaths []string `json:"host_paths,omitempty"`
	// HostUser is the user of the worker's machine that the instance runs as; "": a user
	// of its own.
	HostUser string `json:"host_user,omitempty"`
	// Latency is what the instance must be near, with the positions.
	Latency []Threshold `json:"latency,omitempty"`
	// Data are the objects that it reads, where the root decides. What it reads from hosts
	// is in Latency, as wishes.
	Data []string `json:"data,omitempty"`
	// Traffic of the service, for the scheduler nearest-demand; nil if unknown.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Overlay names the feature of the instance that requires the service network, "" if
	// none does.
	Overlay string `json:"overlay,omitempty"`
	// Pinned is the only eligible worker, because it has a volume of the instance;
	// "": any.
	Pinned string `json:"pinned,omitempty"`
	// Usual is what instances ask for as a rule, where workers have accelerators: rom then
	// places so that little is left that few of them can use.
	Usual waste.Usual `json:"usual,omitempty"`
	// Turn is why it was the instance's turn, if it was placed in a round. It does not
	// affect the choice of worker.
	Turn *turn.Turn `json:"turn,omitempty"`
}

// NewRequest returns a request for count instances of a service, from its descriptor.
func NewRequest(instance wire.InstanceID, s *api.Service, count int) Request {
	r := Request{
		Instance: instance, Count: count, Runtime: s.Runtime, Demand: s.Resources, Affinity: s.Affinity,
		Spread: s.Spread, Scheduler: s.Scheduler, Plugin: s.Plugin, Architecture: s.Architecture, Location: s.Location,
		AntiAffinity: s.AntiAffinity,
		Devices:      s.Devices, Priority: s.Priority, Overlay: s.NeedsNetwork(),
	}
	if len(s.UserRights()) > 0 {
		r.HostUser = s.User
	}
	for _, v := range s.Volumes {
		if v.Host != "" {
			r.HostPaths = append(r.HostPaths, v.Host)
		}
	}
	return r
}

// Decision is the answer and the record that explains it. Two calls with the same
// inputs return the same Decision (except TookNs, which the caller sets).
type Decision struct {
	V       int     `json:"v"`
	Kind    string  `json:"kind" enum:"clusters,worker"`
	Request Request `json:"request"`
	// Candidates counts all that were considered. Filtered lists the filters in the order
	// they were applied, with how many each removed and an example of why.
	Candidates int      `json:"candidates"`
	Filtered   []Filter `json:"filtered,omitempty"`
	// Ranked are the best, at most five, best first.
	Ranked []Ranked `json:"ranked,omitempty"`
	// Shares (kind "clusters"): how many replicas go where. Unplaced is the rest.
	Shares   []ShareOut `json:"shares,omitempty"`
	Unplaced int        `json:"unplaced,omitempty"`
	// Chosen (kind "worker"), "" if none.
	Chosen string `json:"chosen,omitempty"`
	// Reason in words, always set where something could not be placed:
	// "3 clusters: 2 lack area north, 1 is full: needs 512Mi memory, largest free 380Mi".
	Reason string `json:"reason,omitempty"`
	TookNs int64  `json:"took_ns,omitempty"`
	// Inputs, so that the decision can be replayed; left out beyond MaxInputs
	// candidates (InputsOmitted then counts them).
	Clusters      []ClusterView `json:"clusters,omitempty"`
	Workers       []WorkerView  `json:"workers,omitempty"`
	InputsOmitted int           `json:"inputs_omitted,omitempty"`
}

// Filter is a filter that removed candidates.
type Filter struct {
	Name    string `json:"name"` // "connected", "affinity.cluster", "area", "runtime", "avoid", "memory", …
	Removed int    `json:"removed"`
	Example string `json:"example,omitempty"` // "edge-2: needs 512Mi memory, 380Mi free"
}

// Ranked is a candidate with its score and the terms of the score.
type Ranked struct {
	ID    string             `json:"id"`
	Score float64            `json:"score"`
	Parts map[string]float64 `json:"parts,omitempty"`
}

// ShareOut is how many replicas a cluster is to take.
type ShareOut struct {
	Cluster string `json:"cluster"`
	Count   int    `json:"count"`
}

// MaxInputs is how many candidates a record carries in full.
const MaxInputs = 256

// Advice is a plugin's answer to a request for a worker. It is an input of the decision:
// whatever it says, the filters still apply to the current state of the workers.
type Advice struct {
	Plugin string `json:"plugin"`
	// TookNs from the question to the answer, in nanoseconds.
	TookNs int64 `json:"took_ns,omitempty"`
	// Worker for this instance, "" if the plugin only ranks. Ranking has the highest score
	// first; a worker in neither is not chosen. Rejected has reasons by worker.
	Worker   string            `json:"worker,omitempty"`
	Ranking  []Ranked          `json:"ranking,omitempty"`
	Rejected map[string]string `json:"rejected,omitempty"`
	// Reason is why the instance gets no worker, in the plugin's words.
	Reason string `json:"reason,omitempty"`
	// Problem is why there is no usable answer; rom decides then.
	Problem string `json:"problem,omitempty"`
}

// Names says whether the answer names or ranks any worker.
func (a *Advice) Names() bool { return a != nil && (a.Worker != "" || len(a.Ranking) > 0) }
