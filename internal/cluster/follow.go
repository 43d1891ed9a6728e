package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// Following the demand: of services with the scheduler nearest-demand the cluster keeps
// at which of its workers their requests enter. What is placed goes there. Where demand
// has moved, replicas move after it, one at a time, each started before the one that it
// replaces ends, as off a worker that is drained.

const (
	// flowFades is the time in which what was asked for counts for less, by e.
	flowFades = 30 * time.Second
	// flowLeast is the rate of a service below which nothing is concluded from it.
	flowLeast = 0.2
	// followEvery is the time between two looks at a service, followFor how long another
	// place must have been better in all of them.
	followEvery = 10 * time.Second
	followFor   = 30 * time.Second
	// followGain is the least part of the expected time that a move must save, and
	// followSaves the least time.
	followGain  = 0.2
	followSaves = time.Millisecond
)

// flows are what is known of the requests for a service.
type flows struct {
	at       map[string]flow               // by worker where they enter
	replicas map[wire.InstanceID]replicaOf // as routers know them
	looked   time.Time                     // when it was judged last
	better   advantage
}

// flow is a rate of requests, smoothed, as it was at a time.
type flow struct {
	rate float64
	at   time.Time
}

// replicaOf is what a router knew of a replica.
type replicaOf struct {
	wire.ReplicaDemand
	at time.Time
}

// advantage is a replica that should be elsewhere.
type advantage struct {
	id    wire.InstanceID // "": none
	since time.Time
	why   string
}

// now is the rate as it has faded since.
func (f flow) now(now time.Time) float64 {
	return f.rate * math.Exp(-max(0, now.Sub(f.at).Seconds())/flowFades.Seconds())
}

// flow notes what was asked for at a worker, and says whether it is time to look at the
// service.
func (m *model) flow(key, worker string, d *wire.ServiceDemand, span time.Duration, now time.Time) (due bool) {
	f := m.flows[key]
	if f == nil {
		f = &flows{at: map[string]flow{}, replicas: map[wire.InstanceID]replicaOf{}}
		m.flows[key] = f
	}
	// It begins at nothing: a few requests are no demand yet.
	rate := f.at[worker].now(now) + finite(float64(d.Requests)/span.Seconds())*(1-math.Exp(-span.Seconds()/flowFades.Seconds()))
	f.at[worker] = flow{rate, now}
	for _, r := range d.Replicas {
		if i := m.Insts[r.Instance]; i == nil || i.App+"."+i.Service != key {
			continue // of another cluster, or of nobody: a worker may say anything
		}
		r.RPS, r.Exec = finite(r.RPS), max(0, r.Exec)
		f.replicas[r.Instance] = replicaOf{r, now}
	}
	return now.Sub(f.looked) >= followEvery
}

// traffic is where the requests of a service enter, and who answers them but for one
// replica on a worker ("": all do); nil where too few come.
func (t *tx) traffic(key, but string) *place.Traffic {
	f := t.m.flows[key]
	if f == nil {
		return nil
	}
	out, sum := &place.Traffic{Replicas: map[string]int{}}, 0.0
	for _, name := range records.SortedKeys(f.at) {
		w, rate := t.m.Workers[name], f.at[name].now(t.Now)
		if sum += rate; w == nil || rate <= 0 {
			continue
		}
		out.Points = append(out.Points, place.Entry{Rate: rate, At: place.Target{
			ID: name, Worker: name, Coord: w.Coord, Location: w.Info.Location, Direct: t.m.near.direct(name, t.Now),
		}})
	}
	if sum < flowLeast {
		return nil
	}
	var exec, rps []float64
	for _, r := range f.replicas {
		if r.Exec > 0 {
			exec = append(exec, r.Exec.Std().Seconds())
		}
		if r.RPS > 0 {
			rps = append(rps, r.RPS)
		}
	}
	out.Exec, out.RPS = api.Duration(median(exec)*1e9), median(rps)
	for name, u := range t.used() {
		n := u.same[key]
		if name == but {
			n--
		}
		if n > 0 {
			out.Replicas[name] = n
		}
	}
	return out
}

// median of list, 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// leads says whether the replicas of a service are to be where its requests are, here or
// in another cluster.
func (m *model) leads(key string) bool {
	if s := m.delegated(key); s != nil {
		return m.scheduler(s) == place.NearestDemand
	}
	f := m.Far[key]
	return f != nil && f.Requests.Counted
}

// told is what the root is told of the requests that enter here.
func (m *model) told(now time.Time) (out []wire.Entering) {
	for _, key := range records.SortedKeys(m.flows) {
		rate := 0.0
		for name, f := range m.flows[key].at {
			if m.Workers[name] != nil {
				rate += f.now(now)
			}
		}
		if rate < flowLeast {
			continue
		}
		// In steps, so that it is news only where it has changed.
		rate = math.Pow(2, math.Round(2*math.Log2(rate))/2)
		app, service, _ := strings.Cut(key, ".")
		out = append(out, wire.Entering{App: app, Service: service, Rate: math.Round(rate*1000) / 1000})
	}
	slices.SortStableFunc(out, func(a, b wire.Entering) int { return cmp.Compare(b.Rate, a.Rate) })
	return out[:min(len(out), wire.MaxEntering)]
}

// lookFlows judges whether replicas are where the requests are, and says whether one is
// to be moved now.
func (m *model) lookFlows(now time.Time) (move bool) {
	if len(m.flows) == 0 {
		return false
	}
	var t *tx // made for the first that is due
	looked := false
	defer func() {
		if looked {
			m.entering = m.told(now)
		}
	}()
	for _, key := range records.SortedKeys(m.flows) {
		f, s := m.flows[key], m.delegated(key)
		if now.Sub(f.looked) < followEvery {
			continue
		}
		f.looked, looked = now, true
		if f.forget(now); len(f.at) == 0 || !m.leads(key) {
			delete(m.flows, key)
			continue
		}
		if s == nil { // none of it runs here
			f.better = advantage{}
			continue
		}
		if t == nil {
			t = m.begin()
			t.Now = now
		}
		id, why := t.misplaced(key, s)
		switch {
		case id == "":
			f.better = advantage{}
			continue
		case f.better.id == "":
			f.better.since = now
		}
		f.better.id, f.better.why = id, why
		move = move || m.follows(key, now) != ""
	}
	return move
}

// forget drops what is too old to count.
func (f *flows) forget(now time.Time) {
	const old = 10 * flowFades
	maps.DeleteFunc(f.at, func(_ string, x flow) bool { return now.Sub(x.at) > old })
	maps.DeleteFunc(f.replicas, func(_ wire.InstanceID, x replicaOf) bool { return now.Sub(x.at) > old })
}

// follows is the replica of a service that is to be moved now, "" for none.
func (m *model) follows(key string, now time.Time) wire.InstanceID {
	f := m.flows[key]
	if f == nil || f.better.id == "" || now.Sub(f.better.since) < followFor {
		return ""
	}
	if last := m.near.moved[key]; !last.IsZero() && now.Sub(last) < sla.Rest {
		return ""
	}
	return f.better.id
}

// misplaced is the replica of a service that is of the least use where it is, if it would
// be of so much more elsewhere that it pays to move it, and why; "" for none.
func (t *tx) misplaced(key string, s *wire.Share) (id wire.InstanceID, why string) {
	all := t.traffic(key, "")
	if all == nil {
		return "", ""
	}
	on := map[string]*wire.Instance{}
	for _, o := range ordinals(s) {
		i := t.Inst(instanceID(s.App, s.Service, o))
		if i == nil {
			continue
		}
		if i.Moving != nil || i.Leaving != nil {
			return "", "" // where it is then will show
		}
		if i.State == wire.Running && i.Ready && !i.Draining && i.Pinned == "" && on[i.Worker] == nil {
			on[i.Worker] = i
		}
	}
	views := t.index().Views(key)
	now, ok := place.Expected(views, *all)
	if !ok {
		return "", ""
	}
	least, harm := "", time.Duration(math.MaxInt64)
	for _, name := range records.SortedKeys(on) {
		without := *all
		without.Replicas = maps.Clone(all.Replicas)
		without.Replicas[name]--
		if d, ok := place.Expected(views, without); !ok || d < harm {
			least = name
			if harm = d; !ok { // nobody would answer: it is the only one
				break
			}
		}
	}
	i := on[least]
	if i == nil {
		return "", ""
	}
	d := t.schedule(i, s, appendOnce(slices.Clone(t.avoided(i, s)), i.Worker))
	if d.Chosen == "" || len(d.Ranked) == 0 || d.Request.Traffic == nil {
		return "", ""
	}
	then := time.Duration(d.Ranked[0].Score * 1e6)
	if now-then < followSaves || float64(now-then) < followGain*float64(now) {
		return "", ""
	}
	return i.ID, fmt.Sprintf("requests come from elsewhere now: expected %s each, %s with it on %s", shortly(now), shortly(then), d.Chosen)
}

func shortly(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// follow finds the replicas that are to move to where the requests are.
func (t *tx) follow(now time.Time) {
	for _, key := range records.SortedKeys(t.m.flows) {
		id := t.m.follows(key, now)
		if i := t.Inst(id); i != nil && !underWay(i) && i.State == wire.Running && i.Pinned == "" {
			t.broken[id] = t.m.flows[key].better.why
		}
	}
}
