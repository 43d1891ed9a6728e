package autoscale

import (
	"math"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// Epoch is the time between two decisions about a service that somebody asks for.
	Epoch = scale.DefaultEpoch
	// staleAfter is how old what a worker said may be and still be true.
	staleAfter = Epoch + Epoch/2
	// MaxDemand bounds one message of a worker, MaxDemanded for how many services
	// demand is held.
	MaxDemand = 1 << 20
	// MaxDemanded is how many services a worker may report demand of.
	MaxDemanded = 4 * wire.MaxDemandServices
)

// Want is what the last epoch decided about a service.
type Want struct {
	Decision rpc.ScaleDecision
	// Order are the ordinals that run, the best first.
	Order []int
	// warning is for the operator, in the epoch that found it.
	Warning string
}

// Demand is what is known of the demand for one service, in this process.
type Demand struct {
	Said   map[string]Said // by worker
	Scaler *scale.Scaler
	From   int // what the epoch before wanted
}

// Said is what a worker said last.
type Said struct {
	At   time.Time
	Span time.Duration
	D    wire.ServiceDemand
}

// DemandEpoch is the decision of an epoch about one service; goes: nothing is to be
// decided about it until somebody asks for it again.
func DemandEpoch(m *state.Model, key string, book *Demand, now time.Time) (_ *Want, goes bool) {
	s, f := Delegated(m, key), m.Far[key]
	b, spec := bounds{max: api.MaxReplicas}, (*api.Service)(nil)
	switch {
	case s != nil:
		spec = s.Spec
		var ok bool
		if b, ok = BoundsOf(s); !ok {
			return nil, true // its number is fixed
		}
	case f == nil || !f.Requests.Elastic:
		return nil, true
	}
	rules := scale.Rules{Min: b.min, Max: b.max, Epoch: Epoch}
	if b.extra > 0 {
		rules.Min = 0 // those that are there in any case serve others first
	}
	if spec != nil && !SiteDecides(m, key) {
		// What the requests ask for, not what may run here: the root is told of the rest.
		rules.Max = max(rules.Max, spec.Replicas.Max)
	}
	if spec != nil {
		rules.Concurrency = wire.RequestsOf(spec).Places()
		if spec.SLO != nil {
			rules.SLO = spec.SLO.Std()
		}
		if spec.Idle != nil {
			rules.Idle = spec.Idle.Std()
		}
	} else {
		rules.Concurrency, rules.SLO = f.Requests.Places(), f.Requests.SLO.Std()
	}
	in, best := book.sum(now)
	ids := map[string]int{}
	startUp := time.Duration(0)
	if s := m.Shares[key]; s != nil {
		for _, o := range state.Ordinals(s) {
			i := m.Insts[state.InstanceID(s.App, s.Service, o)]
			if i == nil || i.Draining || i.State != wire.Running && i.State != wire.WorkerScheduled {
				continue
			}
			startUp = max(startUp, i.StartUp.Std())
			if state.Asleep(i) && len(book.Said) == 0 {
				continue // it was let sleep: nobody needs it
			}
			r := best[i.ID]
			ids[i.ID] = o
			in.Replicas = append(in.Replicas,
				scale.Replica{ID: i.ID, RPS: r.RPS, Exec: r.Exec.Std(), Waiting: r.Waiting,
					Ready: i.State == wire.Running && i.Ready})
		}
		// Those that run for others do not count.
		in.Replicas = in.Replicas[:max(0, len(in.Replicas)-b.extra)]
	}
	in.Replicas = append(in.Replicas, elsewhere(best, ids, book, len(in.Replicas))...)
	if startUp > 0 && book.Scaler.Starts.Time() == 0 {
		book.Scaler.Starts.Observe(startUp)
	}
	d := book.Scaler.Decide(rules, in, now)
	next := &Want{Decision: rpc.ScaleDecision{
		V: wire.Version, At: now.Round(0), Want: d.Want, From: book.From, Why: d.Why, Min: b.min, Max: b.max,
		Rate: d.Rate, Refused: d.Refused, Predicted: d.Predicted.Rate, RPS: d.RPS, Waiting: d.Waiting,
		Exec: api.Duration(d.Exec), StartUp: api.Duration(d.StartUp), SLO: api.Duration(rules.SLO),
		ForRate: d.ForRate, ForQueue: d.ForQueue, Less: d.Less,
	}}
	for _, id := range d.Stay {
		if id == "" {
			continue
		}
		r := best[id]
		r.Instance = id
		next.Decision.Replicas = append(next.Decision.Replicas, r)
		if o, ok := ids[id]; ok {
			next.Order = append(next.Order, o)
		}
	}
	book.From = d.Want
	if d.Warning != "" {
		next.Warning = d.Warning
	}
	sc := Table.Rows(m.DB)[key]
	return next, len(book.Said) == 0 && d.Want <= b.min && (sc == nil || sc.Want == d.Want)
}

// elsewhere are the replicas in other clusters that run for the requests which enter
// here: as many as the last decision wanted beyond the have that are here, of those
// that the routers use. What they do not know yet is on its way.
func elsewhere(best map[wire.InstanceID]wire.ReplicaDemand, here map[string]int, book *Demand,
	have int) (out []scale.Replica) {
	if len(book.Said) == 0 {
		return nil
	}
	for _, id := range records.SortedKeys(best) {
		if _, ok := here[id]; ok || have+len(out) >= book.From {
			continue
		}
		r := best[id]
		out = append(out, scale.Replica{ID: id, RPS: r.RPS, Exec: r.Exec.Std(), Waiting: r.Waiting, Ready: true})
	}
	for have+len(out) < book.From {
		out = append(out, scale.Replica{})
	}
	return out
}

// sum is the demand of all workers, and each replica as it is known best.
func (b *Demand) sum(now time.Time) (in scale.Demand, best map[wire.InstanceID]wire.ReplicaDemand) {
	best = map[wire.InstanceID]wire.ReplicaDemand{}
	for name, s := range b.Said {
		if age := now.Sub(s.At); age > staleAfter || age < 0 {
			delete(b.Said, name)
			continue
		}
		in.Rate += Finite(float64(s.D.Requests) / s.Span.Seconds())
		in.Refused += Finite(float64(s.D.Refused) / s.Span.Seconds())
		waiting := max(0, s.D.Waiting)
		for _, r := range s.D.Replicas {
			r.RPS, r.Waiting, r.Exec = Finite(r.RPS), max(0, r.Waiting), max(0, r.Exec)
			old, ok := best[r.Instance]
			if !ok || old.RPS < r.RPS {
				r.Waiting = max(r.Waiting, old.Waiting)
				best[r.Instance] = r
			}
		}
		in.Waiting += min(waiting, 1e6)
	}
	// Those in queues of replicas are among those that the routers say wait.
	for _, r := range best {
		in.Waiting -= r.Waiting
	}
	in.Waiting = max(0, in.Waiting)
	return in, best
}

// Finite is a figure that a worker said, as far as one can reckon with it.
func Finite(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	return min(v, 1e9)
}
