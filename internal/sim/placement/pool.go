package placement

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Pool is what one cluster knows of its workers.
type Pool struct {
	views []place.WorkerView
	// fleet is the index of them by which a cluster decides.
	fleet place.Fleet
	// ids are the workers' numbers in the scenario; at finds them in views.
	ids []int
	at  map[string]int
	// has counts the instances of a service by worker.
	has map[string]map[int]int
	// on are the workers of its instances, in their order.
	on map[string][]int
	// rate is what a worker does of a service, in requests per second.
	rate     func(worker int, v *Service) float64
	scenario *Scenario
	// here are the sites whose requests enter at this cluster; nil: all.
	here func(site int) bool
	// Took is the time of the decisions so far; Decisions how many there were.
	Took      time.Duration
	Decisions int
}

// NewPool is a cluster of these workers, whose numbers in the scenario are ids.
func NewPool(s *Scenario, ids []int) *Pool {
	p := &Pool{ids: ids, at: map[string]int{}, has: map[string]map[int]int{}, on: map[string][]int{}, rate: s.rate,
		scenario: s}
	for i, id := range ids {
		w := s.Workers[id].WorkerView
		w.Devices = slices.Clone(w.Devices)
		p.views = append(p.views, w)
		p.at[w.ID] = i
	}
	return p
}

// one decides about one instance, which is to be near what these thresholds say, and binds it: the number of the worker
// in the
// scenario, or -1 and why none.
func (p *Pool) one(v *Service, instance int, ask Scheduler, near []place.Threshold) (worker int, why string,
	err error) {
	p.index()
	if (ask.name() == place.Throughput || ask.Traffic) && p.on[v.Name] == nil {
		for i, id := range p.ids {
			p.fleet.Rate(v.Name, p.views[i].ID, p.rate(id, v))
		}
		p.on[v.Name] = []int{} // once is enough
	}
	req := request(v, instance, ask)
	req.Latency = near
	if ask.Traffic {
		req.Traffic = p.traffic(v)
	}
	var d place.Decision
	p.timed(func() { d = p.fleet.Schedule(v.Name, req) })
	if d.Chosen == "" {
		return -1, d.Reason, nil
	}
	i := p.at[d.Chosen]
	return p.ids[i], "", p.bind(i, v)
}

// index the workers, if that was not done.
func (p *Pool) index() {
	if p.fleet.Len() == 0 {
		for i := range p.views {
			p.fleet.Put(p.views[i])
		}
	}
}

// request for one instance of a service.
func request(v *Service, instance int, ask Scheduler) place.Request {
	req := place.Request{
		Instance: fmt.Sprint(v.Name, ".", instance), Count: 1, Runtime: "container",
		Demand: v.Demand, Spread: "soft", Scheduler: ask.name(),
	}
	if ask.Tight {
		req.Spread = "none"
	}
	return req
}

// timed adds the processor's time of a decision.
func (p *Pool) timed(decide func()) {
	from := processor()
	decide()
	p.Took += processor() - from
	p.Decisions++
}

// bind reserves on a worker what an instance asks for, if it fits: a worker would
// refuse what does not.
func (p *Pool) bind(i int, v *Service) error {
	w := &p.views[i]
	if ok, lacking := amount.Fits(amount.Sub(w.Capacity, w.Used), v.Demand); !ok {
		return fmt.Errorf("%s was placed on %s, where it does not fit: %s", v.Name, w.ID, lacking)
	}
	held, lacking := place.Give(w.Devices, v.Demand, nil)
	if lacking != "" {
		return fmt.Errorf("%s was placed on %s, which has not the devices: %s", v.Name, w.ID, lacking)
	}
	for _, h := range held {
		k := slices.IndexFunc(w.Devices, func(d place.Device) bool { return d.ID == h.ID })
		if w.Devices[k].Used += h.Share; w.Devices[k].Used > 1000 {
			return fmt.Errorf("%s was placed on %s, where more is taken of %s than there is", v.Name, w.ID, h.ID)
		}
	}
	w.Used = amount.Add(w.Used, v.Demand)
	if p.has[v.Name] == nil {
		p.has[v.Name] = map[int]int{}
	}
	p.has[v.Name][i]++
	p.on[v.Name] = append(p.on[v.Name], i)
	if p.fleet.Len() == 0 {
		return nil
	}
	from := processor() // keeping the index is a part of deciding
	p.fleet.Use(w.ID, w.Used)
	if len(held) > 0 {
		p.fleet.Hold(w.ID, w.Devices)
	}
	p.fleet.Mark(v.Name, w.ID, p.has[v.Name][i], nil)
	p.Took += processor() - from
	return nil
}

// pinned runs f on one thread, whose time is measured.
func pinned(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}
