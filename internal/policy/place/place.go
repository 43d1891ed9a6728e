package place

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

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
	// Entering is how many requests a second for that service enter there, as far as it
	// tells, for the scheduler nearest-demand.
	Entering float64 `json:"entering,omitempty"`
	// Lacks counts the objects of Request.Data that are not there.
	Lacks int `json:"lacks,omitempty"`
	// Refused is why the cluster gave back an instance of this service lately.
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
	// Arch is its architecture in the names of Go; Labels are its own and those of
	// its cluster; Location is nil where it is not known.
	Arch     string            `json:"arch,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Location *api.Point        `json:"location,omitempty"`
	// Coord is where it is in the space of round trips; nil where that is not known.
	Coord *wire.Coordinate `json:"coord,omitempty"`
	// HostPaths are directories of which instances may use what is below.
	HostPaths []string `json:"host_paths,omitempty"`
	// HostUsers are the users of the machine that processes may run as.
	HostUsers []string `json:"host_users,omitempty"`
	// Devices that it has, and what of them is taken. Capacity.VGPUs and VTPUs are the
	// sums of what is here: a GPU that is not here is given to nobody.
	Devices []Device `json:"devices,omitempty"`
	// Overlay: it is part of the service network.
	Overlay bool `json:"overlay,omitempty"`
	// Conflicts are the services it runs that the one being placed excludes, or
	// that exclude it (anti_affinity.service), and ports that it would share with
	// one of them (PortTaken).
	Conflicts []string `json:"conflicts,omitempty"`
	// Same counts instances of the service being placed that it already has.
	Same int `json:"same,omitempty"`
	// Throughput is what it does of that service, in requests per second, by a profile;
	// 0 where nothing is known.
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
	// Plugin by which is placed where that is the scheduler, and what it answered;
	// Advice is nil before it was asked.
	Plugin string   `json:"plugin,omitempty"`
	Advice *Advice  `json:"advice,omitempty"`
	Avoid  []string `json:"avoid,omitempty"`
	// Further constraints, as in the descriptor; empty: none.
	Architecture []string         `json:"architecture,omitempty"`
	Location     *api.Location    `json:"location,omitempty"`
	AntiAffinity api.AntiAffinity `json:"anti_affinity,omitzero"`
	// Devices are those that it needs besides those of Demand, and the models of both.
	Devices []api.DeviceNeed `json:"devices,omitempty"`
	// Priority over what is placed already (see Preempt).
	Priority int `json:"priority,omitempty"`
	// HostPaths are directories of the worker that the instance uses.
	HostPaths []string `json:"host_paths,omitempty"`
	// HostUser is the user of the worker's machine that the instance runs as; "" is one
	// of its own.
	HostUser string `json:"host_user,omitempty"`
	// Latency is what the instance must be near, with where that is.
	Latency []Threshold `json:"latency,omitempty"`
	// Data are the objects that it reads, where the root decides. What it reads from hosts
	// is in Latency, as wishes.
	Data []string `json:"data,omitempty"`
	// Traffic of the service, for the scheduler nearest-demand; nil where none is known.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Overlay names what of the instance only workers of the service network have,
	// "" if nothing.
	Overlay string `json:"overlay,omitempty"`
	// Pinned is the only worker that will do, because a volume of the instance is
	// there; "" is any.
	Pinned string `json:"pinned,omitempty"`
	// Turn is why it was the turn of the instance, where it was placed in a round of
	// those that contend. It is no matter of where.
	Turn *Turn `json:"turn,omitempty"`
}

// NewRequest is a request for count instances of a service by what its
// descriptor says.
func NewRequest(instance wire.InstanceID, s *api.Service, count int) Request {
	r := Request{
		Instance: instance, Count: count, Runtime: s.Runtime, Demand: s.Resources, Affinity: s.Affinity,
		Spread: s.Spread, Scheduler: s.Scheduler, Plugin: s.Plugin, Architecture: s.Architecture, Location: s.Location, AntiAffinity: s.AntiAffinity,
		Devices: s.Devices, Priority: s.Priority, Overlay: s.NeedsNetwork(),
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

// Decision is the answer and the record that explains it. Two calls with the
// same inputs return the same Decision (but for TookNs, which the caller sets).
type Decision struct {
	V       int     `json:"v"`
	Kind    string  `json:"kind" enum:"clusters,worker"`
	Request Request `json:"request"`
	// Candidates counts all that were considered; Filtered, per filter in the
	// order they were applied, how many it removed and an example of why.
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

// Filter is one step of narrowing.
type Filter struct {
	Name    string `json:"name"` // "connected", "affinity.cluster", "area", "runtime", "avoid", "memory", …
	Removed int    `json:"removed"`
	Example string `json:"example,omitempty"` // "edge-2: needs 512Mi memory, 380Mi free"
}

// Ranked is a candidate with its score and what it is made of.
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
