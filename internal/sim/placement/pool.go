package placement

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/waste"
	"github.com/verge-edge/verge/internal/sim/placement/cputime"
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
	// on are the workers of a service's instances, in their order.
	on map[string][]int
	// rate is the throughput of a service on a worker, in requests per second.
	rate     func(worker int, v *Service) float64
	scenario *Scenario
	// seen counts what was asked for by now, of which usual is what the cluster goes by; nil: no
	// worker has accelerators.
	seen           map[waste.Kind]int
	usual          waste.Usual
	asked, counted int
	// here are the sites whose requests enter at this cluster; nil: all.
	here func(site int) bool
	// Took is the total time of the decisions, Decisions their number.
	Took      time.Duration
	Decisions int
}

// NewPool returns a cluster of the workers numbered ids in the scenario.
func NewPool(s *Scenario, ids []int) *Pool {
	p := &Pool{ids: ids, at: map[string]int{}, has: map[string]map[int]int{}, on: map[string][]int{}, rate: s.rate,
		scenario: s}
	for i, id := range ids {
		w := s.Workers[id].WorkerView
		w.Devices = slices.Clone(w.Devices)
		p.views = append(p.views, w)
		p.at[w.ID] = i
		if p.seen == nil && w.Capacity.VGPUs > 0 {
			p.seen = map[waste.Kind]int{}
		}
	}
	return p
}

// one places one instance within the thresholds near and binds it. It returns the number of the
// worker in the scenario, or -1 and the reason.
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
	if p.seen != nil && ask.name() == place.ROM {
		req.Usual = p.asks(v)
	}
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

// asks counts an instance that is asked for, and returns what is usual. That is counted anew each
// time that a sixteenth more have come.
func (p *Pool) asks(v *Service) waste.Usual {
	p.seen[waste.Kind{CPU: v.Demand.CPU, Memory: v.Demand.Memory}]++
	if p.asked++; p.asked >= p.counted+p.counted/16 {
		p.usual, p.counted = waste.UsualOf(p.seen), p.asked
	}
	return p.usual
}

// index puts the workers into fleet, if that was not done.
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

// timed adds the processor time of a decision.
func (p *Pool) timed(decide func()) {
	from := cputime.Thread()
	decide()
	p.Took += cputime.Thread() - from
	p.Decisions++
}

// bind reserves the demand of an instance on a worker. It fails if that does not fit: a worker
// would refuse it.
func (p *Pool) bind(i int, v *Service) error {
	w := &p.views[i]
	if ok, lacking := amount.Fits(amount.Sub(w.Capacity, w.Used), v.Demand); !ok {
		return fmt.Errorf("%s was placed on %s, where it does not fit: %s", v.Name, w.ID, lacking)
	}
	held, lacking := device.Give(w.Devices, v.Demand, nil)
	if lacking != "" {
		return fmt.Errorf("%s was placed on %s, which has not the devices: %s", v.Name, w.ID, lacking)
	}
	for _, h := range held {
		k := slices.IndexFunc(w.Devices, func(d device.Device) bool { return d.ID == h.ID })
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
	from := cputime.Thread() // maintaining the index is part of deciding
	p.fleet.Use(w.ID, w.Used)
	if len(held) > 0 {
		p.fleet.Hold(w.ID, w.Devices)
	}
	p.fleet.Mark(v.Name, w.ID, p.has[v.Name][i], nil)
	p.Took += cputime.Thread() - from
	return nil
}

// pinned runs f on one thread, as processor measures the time of a thread.
func pinned(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}
