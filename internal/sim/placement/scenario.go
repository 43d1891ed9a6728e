package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Worker of a scenario.
type Worker struct {
	place.WorkerView
	Cluster string
	// Site is its index in Scenario.RTT.
	Site int
	// Speed of one of its cores, relative to the one that Service.Work is measured on.
	Speed float64
}

// Service to be placed.
type Service struct {
	Name     string // "application.service"
	Demand   api.Resources
	Replicas int
	// Near are the services of which an instance must be near each of this one's.
	Near []Near
	// Work is the core time of a request in s, Rate the requests per second, Users the sites they
	// come from, equally many from each.
	Work, Rate float64
	Users      []int
}

// Near is an agreement on a distance.
type Near struct {
	To     string  // a service
	Within float64 // ms of a round trip
}

// Scenario is an infrastructure and the services to place on it, in this order.
type Scenario struct {
	Name     string
	Workers  []Worker
	Services []Service
	// RTT is the round trip between two sites in ms; nil where there are no distances.
	RTT func(a, b int) float64
	// Sites is the number of sites.
	Sites int
	// Order is the service of each instance in order of arrival; nil: all of one service, then all
	// of the next, those that others must be near before these.
	Order []int
	// located: workers have coordinates; coords are those of the sites, and direct the round trips
	// to each site that workers have measured, by worker.
	located bool
	coords  []wire.Coordinate
	direct  []map[string]api.Duration
}

// rate is the throughput of an instance on a worker, in requests per second.
func (s *Scenario) rate(worker int, v *Service) float64 {
	work := v.Work
	if work == 0 {
		work = usualWork
	}
	return s.Workers[worker].Speed * cpuOf(v.Demand) / work
}

// order is Order, never nil.
func (s *Scenario) order() []int {
	if s.Order != nil {
		return s.Order
	}
	var out []int
	for _, i := range s.inTurn() {
		for range s.Services[i].Replicas {
			out = append(out, i)
		}
	}
	return out
}

// inTurn are the services in their order, but what others must be near before these, as the root
// places them.
func (s *Scenario) inTurn() []int {
	index, names := make(map[string]int, len(s.Services)), make([]string, len(s.Services))
	for i := range s.Services {
		names[i] = s.Services[i].Name
		index[names[i]] = i
	}
	out := make([]int, 0, len(s.Services))
	for _, name := range turn.AfterNeeds(names, func(name string) (to []string) {
		for _, n := range s.Services[index[name]].Near {
			to = append(to, n.To)
		}
		return to
	}) {
		out = append(out, index[name])
	}
	return out
}

const gib = 1 << 30

func worker(i int, cores, memory float64) Worker {
	return Worker{
		WorkerView: place.WorkerView{
			ID: fmt.Sprintf("w%06d", i), Runtimes: []string{"container"}, Arch: "amd64",
			Capacity: api.Resources{CPU: api.CPU(math.Round(cores * 1000)), Memory: api.Bytes(memory)},
		},
		Speed: 1,
	}
}

func demand(cores, memory float64) api.Resources {
	return api.Resources{CPU: api.CPU(math.Round(cores * 1000)), Memory: api.Bytes(memory)}
}

// cpuOf is the number of cores.
func cpuOf(r api.Resources) float64 { return float64(r.CPU) / 1000 }

// Requests if the data have none: 20 ms of a core each, at a rate that keeps half of the reserved
// cores busy, from eight sites.
const (
	usualWork  = 0.02
	usualLoad  = 0.5
	usualUsers = 8
)

// requested sets the requests of the services.
func (s *Scenario) requested(rng *rand.Rand) {
	for i := range s.Services {
		v := &s.Services[i]
		v.Work = usualWork
		v.Rate = usualLoad * float64(v.Replicas) * cpuOf(v.Demand) / v.Work
		for range usualUsers {
			v.Users = append(v.Users, rng.IntN(s.Sites))
		}
	}
}

// Continuum is the edge and the cloud of k8s-continuum-50: 1,000 nodes in 285 clusters, and 284
// services with 2,270 replicas that ask for half of them.
func Continuum(seed uint64) (*Scenario, error) {
	nodes, err := table("continuum-nodes")
	if err != nil {
		return nil, err
	}
	between, err := table("continuum-between")
	if err != nil {
		return nil, err
	}
	within, err := table("continuum-within")
	if err != nil {
		return nil, err
	}
	services, err := table("continuum-services")
	if err != nil {
		return nil, err
	}
	near, err := table("continuum-near")
	if err != nil {
		return nil, err
	}
	s := &Scenario{Name: "continuum"}
	cluster := map[string]int{}
	for i, row := range between {
		cluster[row[0]] = i
	}
	n := numbers{}
	at := make([]int, 0, len(nodes))
	for i, row := range nodes[1:] {
		w := worker(i, n.float(row[1]), n.float(row[3])*gib)
		w.Cluster, w.Site, w.Speed = row[0], i, n.float(row[2])/1000
		s.Workers, at = append(s.Workers, w), append(at, cluster[row[0]])
	}
	apart := make([][]float64, len(between))
	for i, row := range between {
		for _, v := range row[1:] {
			apart[i] = append(apart[i], n.float(v))
		}
	}
	inside := map[[2]int]float64{}
	for _, row := range within {
		a, b := int(n.float(row[0])), int(n.float(row[1]))
		inside[[2]int{min(a, b), max(a, b)}] = n.float(row[2])
	}
	s.Sites = len(s.Workers)
	s.RTT = func(a, b int) float64 {
		switch i, j := at[a], at[b]; {
		case a == b:
			return 0
		case i == j:
			return inside[[2]int{min(a, b), max(a, b)}]
		default:
			return apart[max(i, j)][min(i, j)]
		}
	}
	agreed := map[string][]Near{}
	for _, row := range near {
		agreed[row[0]] = append(agreed[row[0]], Near{To: serviceName(row[1]), Within: n.float(row[2])})
	}
	for _, row := range services[1:] {
		s.Services = append(s.Services, Service{
			Name: serviceName(row[0]), Replicas: int(n.float(row[1])),
			Demand: demand(n.float(row[2]), n.float(row[3])*gib), Near: agreed[row[0]],
		})
	}
	if n.err != nil {
		return nil, fmt.Errorf("data of k8s-continuum-50: %w", n.err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(s.Services), func(i, j int) { s.Services[i], s.Services[j] = s.Services[j], s.Services[i] })
	s.requested(rng)
	return s, nil
}

// serviceName makes "app-msg-3.workload-16" of "app-msg-3-workload-16".
func serviceName(of string) string {
	for i := len(of) - 1; i > 0; i-- {
		if of[i] == 'w' && of[i-1] == '-' {
			return of[:i-1] + "." + of[i:]
		}
	}
	return "app." + of
}

// OpenB is the cluster of openb: 1,523 nodes and 8,152 pods, each a service, by cpu and memory, and
// with gpus also by GPUs: whole ones, or a share of one. times is how often all pods come: once is
// 68 % of the processors, and 98 % of the GPUs.
func OpenB(times float64, gpus bool, seed uint64) (*Scenario, error) {
	nodes, err := table("openb-nodes")
	if err != nil {
		return nil, err
	}
	pods, err := table("openb-pods")
	if err != nil {
		return nil, err
	}
	s := &Scenario{Name: "openb"}
	n := numbers{}
	for i, row := range nodes[1:] {
		w := worker(i, n.float(row[0])/1000, n.float(row[1])*(1<<20))
		w.Cluster = "openb"
		for k := 0; gpus && k < int(n.float(row[2])); k++ {
			w.Devices = append(w.Devices,
				device.Device{Device: wire.Device{ID: fmt.Sprint("gpu", k), Type: api.DeviceGPU, Model: row[3]}})
			w.Capacity.VGPUs += 1000
		}
		s.Workers = append(s.Workers, w)
	}
	all := make([]Service, 0, len(pods))
	for _, row := range pods[1:] {
		v := Service{Demand: demand(n.float(row[0])/1000, n.float(row[1])*(1<<20)), Replicas: 1}
		if gpus {
			v.Demand.VGPUs = api.Units(n.float(row[2]) * n.float(row[3])) // several are whole
		}
		all = append(all, v)
	}
	if n.err != nil {
		return nil, fmt.Errorf("data of openb: %w", n.err)
	}
	// The first pass is in their order; then they are drawn at random.
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range int(times * float64(len(all))) {
		v := all[i%len(all)]
		if i >= len(all) {
			v = all[rng.IntN(len(all))]
		}
		v.Name = "openb.pod-" + strconv.Itoa(i)
		s.Services = append(s.Services, v)
	}
	return s, nil
}

// PlanetLab is 245 nodes of universities with two workers of 2 to 16 cores at each, in clusters
// around 24 of them, and services that ask for the share load of the processors. Distances are
// measured, all else is generated.
func PlanetLab(load float64, seed uint64) (*Scenario, error) {
	rows, err := table("planetlab")
	if err != nil {
		return nil, err
	}
	n := numbers{}
	rtt := make([][]float64, len(rows))
	for i, row := range rows {
		for _, v := range row[1:] {
			rtt[i] = append(rtt[i], n.float(v))
		}
	}
	if n.err != nil {
		return nil, fmt.Errorf("distances of PlanetLab: %w", n.err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	s := &Scenario{Name: "planetlab", Sites: len(rtt)}
	s.RTT = func(a, b int) float64 {
		if a == b {
			return 0.2
		}
		return rtt[max(a, b)][min(a, b)]
	}
	landmarks := rng.Perm(s.Sites)[:24]
	for i := range 2 * s.Sites {
		cores := float64(int(2) << rng.IntN(4))
		w := worker(i, cores, cores*gib*float64(int(1)<<rng.IntN(3)))
		w.Site, w.Speed = i/2, 0.5+rng.Float64()
		nearest := landmarks[0]
		for _, l := range landmarks {
			if s.RTT(w.Site, l) < s.RTT(w.Site, nearest) {
				nearest = l
			}
		}
		w.Cluster = "around-" + strconv.Itoa(nearest)
		s.Workers = append(s.Workers, w)
	}
	s.draw(load, rng)
	s.requested(rng)
	return s, nil
}

// draw adds services, as the generator of k8s-continuum-50 does, until they ask for the share load
// of the processors: ten per application, a fifth of which must be near another one of it.
func (s *Scenario) draw(load float64, rng *rand.Rand) {
	total, asked := 0.0, 0.0
	for _, w := range s.Workers {
		total += cpuOf(w.Capacity)
	}
	for i := 0; asked < load*total; i++ {
		v := Service{
			Name:     fmt.Sprintf("app-%d.service-%d", i/10, i%10),
			Replicas: 1 + rng.IntN(10),
			Demand:   demand(0.2+1.8*rng.Float64(), (0.5+5.5*rng.Float64())*gib),
		}
		if i%10 > 0 && rng.IntN(5) == 0 {
			v.Near = []Near{{To: fmt.Sprintf("app-%d.service-%d", i/10, rng.IntN(i%10)), Within: 10 + 40*rng.Float64()}}
		}
		asked += float64(v.Replicas) * cpuOf(v.Demand)
		s.Services = append(s.Services, v)
	}
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%04d", i) }

// Random is workers of 2 to 32 cores in clusters of 1 to 100, and services like those of
// k8s-continuum-50 that ask for the share load of the processors. There are no distances.
func Random(workers int, load float64, seed uint64) *Scenario {
	rng := rand.New(rand.NewPCG(seed, 6))
	s := &Scenario{Name: "random"}
	cluster, left := -1, 0
	for i := range workers {
		if left == 0 {
			cluster, left = cluster+1, 1+rng.IntN(100)
		}
		left--
		cores := float64(int(2) << rng.IntN(5))
		w := worker(i, cores, cores*gib*float64(int(1)<<rng.IntN(3)))
		w.Cluster = clusterName(cluster)
		s.Workers = append(s.Workers, w)
	}
	s.draw(load, rng)
	for i := range s.Services {
		s.Services[i].Near = nil
	}
	return s
}

// Equal is workers of two cores and 4 GiB in clusters of the given size, and services of one small
// instance each.
func Equal(workers, size, services int) *Scenario {
	s := &Scenario{Name: "equal"}
	for i := range workers {
		w := worker(i, 2, 4*gib)
		w.Cluster = clusterName(i / size)
		s.Workers = append(s.Workers, w)
	}
	for i := range services {
		s.Services = append(s.Services,
			Service{Name: fmt.Sprintf("app.service-%d", i), Replicas: 1, Demand: demand(0.05, gib/10)})
	}
	return s
}

// Mu is a case of Mu's section 3.5.3 with this many nodes and functions. 90 % of the functions ask
// for less than 400 MB, the others for 500 to 2,000; all for one to eight cores and 1 to 16 pods,
// which come in random order. The nodes, of 0.5 to 1.5 times their mean, have 80 % of the cores and
// 60 % of the memory asked for.
func Mu(nodes, functions int, seed uint64) *Scenario {
	rng := rand.New(rand.NewPCG(seed, 8))
	s := &Scenario{Name: "mu"}
	const mb = 1e6
	var cores, memory float64
	for i := range functions {
		mem := 50 + 350*rng.Float64()
		if rng.IntN(10) == 0 {
			mem = 500 + 1500*rng.Float64()
		}
		v := Service{Name: fmt.Sprintf("app.f-%d", i), Replicas: 1 + rng.IntN(16),
			Demand: demand(1+7*rng.Float64(), mem*mb)}
		cores += float64(v.Replicas) * cpuOf(v.Demand)
		memory += float64(v.Replicas) * float64(v.Demand.Memory)
		s.Services = append(s.Services, v)
	}
	size, sum := make([]float64, nodes), 0.0
	for i := range size {
		size[i] = 0.5 + rng.Float64()
		sum += size[i]
	}
	for i := range nodes {
		w := worker(i, 0.8*cores*size[i]/sum, 0.6*memory*size[i]/sum)
		w.Cluster = clusterName(0)
		s.Workers = append(s.Workers, w)
	}
	s.Order = s.order()
	rng.Shuffle(len(s.Order), func(i, j int) { s.Order[i], s.Order[j] = s.Order[j], s.Order[i] })
	return s
}

// Node is a worker of a scenario made by hand.
type Node struct {
	Name          string
	Cores, Memory float64 // bytes
	// Throughput of an instance there, in requests per second.
	Throughput float64
}

// Nodes is these workers and one service with this many replicas.
func Nodes(nodes []Node, cores, memory float64, replicas int) *Scenario {
	v := Service{Name: "app.service", Replicas: replicas, Demand: demand(cores, memory), Work: 1}
	s := &Scenario{Name: "nodes", Services: []Service{v}}
	for i, n := range nodes {
		w := worker(i, n.Cores, n.Memory)
		w.ID, w.Cluster, w.Speed = n.Name, clusterName(0), n.Throughput/cores
		s.Workers = append(s.Workers, w)
	}
	return s
}
