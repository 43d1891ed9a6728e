package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/sim/placement/cputime"
)

// Planet is many clusters below one root, whose workers come and go while services are deployed.
// The root decides on what clusters report every Report seconds, less what it gave them since.
type Planet struct {
	Clusters, Workers int // workers of each cluster
	Seconds           int
	// Churn is the share of the workers that leave, per minute; they are away for Away
	// seconds on average.
	Churn float64
	Away  float64
	// Deploy is how many services come per second on average, with 1 to 10 replicas.
	Deploy float64
	// Report is the time between two reports of a cluster, in s.
	Report int
	// Liars is the share of the clusters that report all they have as free.
	Liars float64
	Seed  uint64
}

// PlanetResult is the result of a Planet.
type PlanetResult struct {
	// Services that came, Whole those that were once placed completely; Instances and Placed count
	// their replicas.
	Services, Whole, Instances, Placed int
	// Wait is the time in s until all replicas of a service were placed, of those in Whole; Ranked
	// how often a service was ranked until then.
	Wait, Ranked []int
	// Offered counts replicas offered to clusters, Refused those that they gave back.
	Offered, Refused int
	// Left counts workers that left; Replaced the instances that got another worker because
	// theirs did not return in time, Escalated those for which their own cluster had none.
	Left, Replaced, Escalated int
	// Root and Cluster are the processor time of each decision, Report that of making an aggregate.
	Root, Cluster, Report []time.Duration
	// Heap is the peak memory in use, in bytes.
	Heap uint64
}

// member is a worker of a planet, small: there are a million of them.
type member struct {
	cpu, cpuUsed int32 // millicores
	mem, memUsed int32 // MiB
	away         bool
	left         int32 // when, in s
	first        int32 // of its instances, -1: none
}

// placed is an instance.
type placed struct {
	service, next int32
	cluster       int32 // -1: it is waiting
	worker        int32
}

// deployed is a service and its waiting instances.
type deployed struct {
	v         Service
	came      int
	ranked    int
	instances []int32
	waiting   []int32
	refused   map[int]string // by cluster, until its report shows a gain
	asked     map[int]int    // when it refused, in s
	done      bool
}

// askAgain is the time in s after which a cluster is asked again for what it refused, even if its
// reports show no gain.
const askAgain = 300

// replaceAfter is how long instances wait for a worker that left, in s.
const replaceAfter = 20

type planet struct {
	Planet
	rng     *rand.Rand
	now     int
	ids     []string // of workers, the same in each cluster
	members []member
	views   []place.ClusterView
	lies    []bool
	buffer  []place.WorkerView
	inst    []placed
	svc     []*deployed
	open    []*deployed // with waiting instances
	back    map[int][]int32
	due     map[int][]int32 // workers whose instances are to be replaced
	out     PlanetResult
}

// Run simulates it. It is an error if a worker is overcommitted.
func (o Planet) Run(ctx context.Context) (*PlanetResult, error) {
	p := &planet{Planet: o, rng: rand.New(rand.NewPCG(o.Seed, 4)), back: map[int][]int32{}, due: map[int][]int32{}}
	p.settle()
	err := pinned(func() error {
		for p.now = range p.Seconds {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.second(); err != nil {
				return fmt.Errorf("second %d: %w", p.now, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%d clusters of %d workers: %w", o.Clusters, o.Workers, err)
	}
	for _, s := range p.svc {
		p.out.Instances += len(s.instances)
		p.out.Placed += len(s.instances) - len(s.waiting)
	}
	p.out.Services = len(p.svc)
	return &p.out, nil
}

// settle makes the workers, of 2 to 32 cores, each a quarter to all in use.
func (p *planet) settle() {
	for i := range p.Workers {
		p.ids = append(p.ids, fmt.Sprintf("w%05d", i))
	}
	p.members = make([]member, p.Clusters*p.Workers)
	p.buffer = make([]place.WorkerView, 0, p.Workers)
	for c := range p.Clusters {
		full := 0.5 + 0.5*p.rng.Float64() // clusters are not alike
		for i := range p.Workers {
			m := &p.members[c*p.Workers+i]
			cores := int32(2) << p.rng.IntN(5)
			m.cpu, m.mem, m.first = 1000*cores, 1024*cores<<p.rng.IntN(3), -1
			m.cpuUsed = int32(float64(m.cpu) * min(1, full*(0.5+p.rng.Float64())))
			m.memUsed = int32(float64(m.mem) * min(1, full*(0.5+p.rng.Float64())))
		}
		p.views = append(p.views, place.ClusterView{ID: fmt.Sprintf("c%04d", c), Connected: true})
		p.lies = append(p.lies, p.rng.Float64() < p.Liars)
		p.report(c)
	}
}

// look is what a cluster knows of its workers.
func (p *planet) look(c int) []place.WorkerView {
	views := p.buffer[:0]
	for i := range p.Workers {
		m := &p.members[c*p.Workers+i]
		views = append(views, place.WorkerView{
			ID: p.ids[i], Runtimes: containers, Arch: "amd64", Suspect: m.away,
			Capacity: api.Resources{CPU: api.CPU(m.cpu), Memory: api.Bytes(m.mem) << 20},
			Used:     api.Resources{CPU: api.CPU(m.cpuUsed), Memory: api.Bytes(m.memUsed) << 20},
		})
	}
	return views
}

var containers = []string{"container"}

func (p *planet) report(c int) {
	views := p.look(c)
	if p.lies[c] {
		for i := range views {
			views[i].Used = api.Resources{}
		}
	}
	from := cputime.Thread()
	was := p.views[c].Aggregate
	p.views[c].Aggregate = Aggregate(views)
	p.out.Report = append(p.out.Report, cputime.Thread()-from)
	p.views[c].Pending = api.Resources{}
	for _, s := range p.open {
		if _, ok := s.refused[c]; !ok {
			continue
		}
		req := request(&s.v, 0, Scheduler{})
		if p.now-s.asked[c] >= askAgain || place.Gained(was, p.views[c].Aggregate, req) {
			delete(s.refused, c)
		}
	}
}

// second simulates one second.
func (p *planet) second() error {
	p.churn()
	for c := p.now % p.Report; c < p.Clusters; c += p.Report {
		p.report(c)
	}
	for _, w := range p.due[p.now] {
		if err := p.replace(w); err != nil {
			return err
		}
	}
	delete(p.due, p.now)
	for n := p.Deploy * p.rng.ExpFloat64(); n > p.rng.Float64(); n-- {
		p.deploy()
	}
	// New services are placed at once, waiting ones tried again as clusters report.
	still := p.open[:0]
	for _, s := range p.open {
		if p.now == s.came || (p.now-s.came)%p.Report == 0 || s.refused == nil {
			if err := p.place(s); err != nil {
				return err
			}
		}
		if len(s.waiting) > 0 {
			still = append(still, s)
		}
	}
	p.open = still
	if p.now%10 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.out.Heap = max(p.out.Heap, m.HeapAlloc)
	}
	return nil
}

// churn lets workers leave and come back.
func (p *planet) churn() {
	for _, w := range p.back[p.now] {
		p.members[w].away = false
	}
	delete(p.back, p.now)
	n := p.Churn / 60 * float64(len(p.members))
	for ; n > p.rng.Float64(); n-- {
		w := int32(p.rng.IntN(len(p.members)))
		if p.members[w].away {
			continue
		}
		p.members[w].away, p.members[w].left = true, int32(p.now)
		p.out.Left++
		back := p.now + 1 + int(p.Away*p.rng.ExpFloat64())
		p.back[back] = append(p.back[back], w)
		if back > p.now+replaceAfter && p.members[w].first >= 0 {
			p.due[p.now+replaceAfter] = append(p.due[p.now+replaceAfter], w)
		}
	}
}

// deploy adds a random service.
func (p *planet) deploy() {
	s := &deployed{came: p.now, v: Service{
		Name:     fmt.Sprintf("app.service-%d", len(p.svc)),
		Replicas: 1 + p.rng.IntN(10),
		Demand:   api.Resources{CPU: api.CPU(100 + p.rng.IntN(3900)), Memory: api.Bytes(128+p.rng.IntN(8000)) << 20},
	}}
	for range s.v.Replicas {
		id := int32(len(p.inst))
		p.inst = append(p.inst, placed{service: int32(len(p.svc)), next: -1, cluster: -1})
		s.instances, s.waiting = append(s.instances, id), append(s.waiting, id)
	}
	p.svc, p.open = append(p.svc, s), append(p.open, s)
}

// place asks the root for the waiting instances of a service, until no cluster takes any more.
func (p *planet) place(s *deployed) error {
	if s.refused == nil {
		s.refused, s.asked = map[int]string{}, map[int]int{}
	}
	same := map[int]int{}
	for _, i := range s.instances {
		if c := p.inst[i].cluster; c >= 0 {
			same[int(c)]++
		}
	}
	for len(s.waiting) > 0 {
		for c, n := range same {
			p.views[c].Same = n
		}
		for c, why := range s.refused {
			p.views[c].Refused = why
		}
		req := request(&s.v, 0, Scheduler{})
		req.Instance, req.Count, req.Spread = s.v.Name, len(s.waiting), "none"
		from := cputime.Thread()
		d := place.RankClusters(p.views, req)
		p.out.Root = append(p.out.Root, cputime.Thread()-from)
		s.ranked++
		for c := range same {
			p.views[c].Same = 0
		}
		for c := range s.refused {
			p.views[c].Refused = ""
		}
		if len(d.Shares) == 0 {
			return nil
		}
		for _, share := range d.Shares {
			c := slices.IndexFunc(p.views, func(v place.ClusterView) bool { return v.ID == share.Cluster })
			took, why, err := p.offer(c, s, share.Count)
			if err != nil {
				return err
			}
			same[c] += took
			p.out.Offered += share.Count
			p.out.Refused += share.Count - took
			for range took {
				p.views[c].Pending = amount.Add(p.views[c].Pending, s.v.Demand)
			}
			if took < share.Count {
				s.refused[c], s.asked[c] = why, p.now
			}
		}
	}
	if !s.done {
		s.done = true
		p.out.Whole++
		p.out.Wait, p.out.Ranked = append(p.out.Wait, p.now-s.came), append(p.out.Ranked, s.ranked)
	}
	return nil
}

// offer lets a cluster place up to count of the waiting instances of a service.
func (p *planet) offer(c int, s *deployed, count int) (took int, why string, err error) {
	views := p.look(c)
	for _, i := range s.instances {
		if x := p.inst[i]; int(x.cluster) == c {
			views[x.worker].Same++
		}
	}
	for took < count && len(s.waiting) > 0 {
		id := s.waiting[len(s.waiting)-1]
		req := request(&s.v, int(id), Scheduler{Name: "rom"})
		from := cputime.Thread()
		d := place.Schedule(views, req)
		p.out.Cluster = append(p.out.Cluster, cputime.Thread()-from)
		if d.Chosen == "" {
			return took, d.Reason, nil
		}
		k, _ := slices.BinarySearch(p.ids, d.Chosen)
		m := &p.members[c*p.Workers+k]
		if m.away || api.CPU(m.cpu-m.cpuUsed) < s.v.Demand.CPU || api.Bytes(m.mem-m.memUsed)<<20 < s.v.Demand.Memory {
			return took, "", fmt.Errorf("%s in %s: worker %s was chosen, on which it does not fit", s.v.Name,
				p.views[c].ID,
				d.Chosen)
		}
		m.cpuUsed, m.memUsed = m.cpuUsed+int32(s.v.Demand.CPU), m.memUsed+int32(s.v.Demand.Memory>>20)
		views[k].Used, views[k].Same = amount.Add(views[k].Used, s.v.Demand), views[k].Same+1
		p.inst[id].cluster, p.inst[id].worker, p.inst[id].next = int32(c), int32(k), m.first
		m.first = id
		s.waiting = s.waiting[:len(s.waiting)-1]
		took++
	}
	return took, "", nil
}

// replace moves the instances of a worker that has not returned: within its cluster if possible,
// else the root is asked again.
func (p *planet) replace(w int32) error {
	m := &p.members[w]
	if !m.away || p.now-int(m.left) < replaceAfter { // it has been back meanwhile
		return nil
	}
	for id := m.first; id >= 0; {
		x := &p.inst[id]
		next := x.next
		s := p.svc[x.service]
		m.cpuUsed, m.memUsed = m.cpuUsed-int32(s.v.Demand.CPU), m.memUsed-int32(s.v.Demand.Memory>>20)
		c := int(x.cluster)
		x.cluster, x.next = -1, -1
		idle := len(s.waiting) == 0
		s.waiting = append(s.waiting, id)
		took, why, err := p.offer(c, s, 1)
		if err != nil {
			return err
		}
		p.out.Replaced += took
		if took == 0 {
			p.out.Escalated++
			if s.refused == nil || idle {
				s.refused, s.asked = map[int]string{}, map[int]int{}
			}
			s.refused[c], s.asked[c] = why, p.now
			if idle {
				s.came = p.now
				p.open = append(p.open, s)
			}
		}
		id = next
	}
	m.first = -1
	return nil
}
