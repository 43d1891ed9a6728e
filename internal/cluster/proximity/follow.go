package proximity

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/state"
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
	// FollowEvery is the time between two looks at a service, FollowFor how long another
	// place must have been better in all of them.
	FollowEvery = 10 * time.Second
	// FollowFor is how long an advantage must last.
	FollowFor = 30 * time.Second
	// FollowGain is the least part of the expected time that a move must save, and
	// FollowSaves the least time.
	FollowGain = 0.2
	// FollowSaves is the least that a request must save.
	FollowSaves = time.Millisecond
)

// Flows are what is known of the requests for a service.
type Flows struct {
	At       map[string]flow               // by worker where they enter
	Replicas map[wire.InstanceID]replicaOf // as routers know them
	Looked   time.Time                     // when it was judged last
	Better   Advantage
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

// Advantage is a replica that should be elsewhere.
type Advantage struct {
	ID    wire.InstanceID // "": none
	Since time.Time
	Why   string
}

// now is the rate as it has faded since.
func (f flow) now(now time.Time) float64 {
	return f.rate * math.Exp(-max(0, now.Sub(f.at).Seconds())/flowFades.Seconds())
}

// Flow notes what was asked for at a worker, and says whether it is time to look at the
// service.
func Flow(m *state.Model, key, worker string, d *wire.ServiceDemand, span time.Duration, now time.Time) (due bool) {
	f := Memory(m).Flows[key]
	if f == nil {
		f = &Flows{At: map[string]flow{}, Replicas: map[wire.InstanceID]replicaOf{}}
		Memory(m).Flows[key] = f
	}
	// It begins at nothing: a few requests are no demand yet.
	rate := f.At[worker].now(now) + autoscale.Finite(float64(d.Requests)/span.Seconds())*(1-math.Exp(-span.Seconds()/flowFades.Seconds()))
	f.At[worker] = flow{rate, now}
	for _, r := range d.Replicas {
		if i := m.Insts[r.Instance]; i == nil || i.App+"."+i.Service != key {
			continue // of another cluster, or of nobody: a worker may say anything
		}
		r.RPS, r.Exec = autoscale.Finite(r.RPS), max(0, r.Exec)
		f.Replicas[r.Instance] = replicaOf{r, now}
	}
	return now.Sub(f.Looked) >= FollowEvery
}

// Traffic is where the requests of a service enter, and who answers them but for one
// replica on a worker ("": all do); nil where too few come.
func Traffic(t *state.Tx, key, but string) *place.Traffic {
	f := Memory(t.Model).Flows[key]
	if f == nil {
		return nil
	}
	out, sum := &place.Traffic{Replicas: map[string]int{}}, 0.0
	for _, name := range records.SortedKeys(f.At) {
		w, rate := t.Model.Workers[name], f.At[name].now(t.Now)
		if sum += rate; w == nil || rate <= 0 {
			continue
		}
		out.Points = append(out.Points, place.Entry{Rate: rate, At: place.Target{
			ID: name, Worker: name, Coord: w.Coord, Location: w.Info.Location,
			Direct: Memory(t.Model).Near.direct(name, t.Now),
		}})
	}
	if sum < flowLeast {
		return nil
	}
	var exec, rps []float64
	for _, r := range f.Replicas {
		if r.Exec > 0 {
			exec = append(exec, r.Exec.Std().Seconds())
		}
		if r.RPS > 0 {
			rps = append(rps, r.RPS)
		}
	}
	out.Exec, out.RPS = api.Duration(median(exec)*1e9), median(rps)
	for name, u := range fleet.Used(t) {
		n := u.Same[key]
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

// Leads says whether the replicas of a service are to be where its requests are, here or
// in another cluster.
func Leads(m *state.Model, key string) bool {
	if s := autoscale.Delegated(m, key); s != nil {
		return state.Scheduler(m, s) == place.NearestDemand
	}
	f := m.Far[key]
	return f != nil && f.Requests.Counted
}

// Told is what the root is told of the requests that enter here.
func Told(m *state.Model, now time.Time) (out []wire.Entering) {
	for _, key := range records.SortedKeys(Memory(m).Flows) {
		rate := 0.0
		for name, f := range Memory(m).Flows[key].At {
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

// Forget drops what is too old to count.
func (f *Flows) Forget(now time.Time) {
	const old = 10 * flowFades
	maps.DeleteFunc(f.At, func(_ string, x flow) bool { return now.Sub(x.at) > old })
	maps.DeleteFunc(f.Replicas, func(_ wire.InstanceID, x replicaOf) bool { return now.Sub(x.at) > old })
}

// Follows is the replica of a service that is to be moved now, "" for none.
func Follows(m *state.Model, key string, now time.Time) wire.InstanceID {
	f := Memory(m).Flows[key]
	if f == nil || f.Better.ID == "" || now.Sub(f.Better.Since) < FollowFor {
		return ""
	}
	if last := Memory(m).Near.Moved[key]; !last.IsZero() && now.Sub(last) < sla.Rest {
		return ""
	}
	return f.Better.ID
}

// Shortly is d as people are shown it.
func Shortly(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
