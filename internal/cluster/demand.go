package cluster

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// epoch is the time between two decisions about a service that somebody asks for.
	epoch = scale.DefaultEpoch
	// staleAfter is how old what a worker said may be and still be true.
	staleAfter = epoch + epoch/2
	// maxDemand bounds one message of a worker, maxDemanded for how many services
	// demand is held.
	maxDemand   = 1 << 20
	maxDemanded = 4 * wire.MaxDemandServices
)

// want is what the last epoch decided about a service.
type want struct {
	Decision wire.ScaleDecision
	// Order are the ordinals that run, the best first.
	Order []int
	// warning is for the operator, in the epoch that found it.
	warning string
}

// demanded is what is known of the demand for one service, in this process.
type demanded struct {
	said   map[string]said // by worker
	scaler *scale.Scaler
	from   int // what the epoch before wanted
}

// said is what a worker said last.
type said struct {
	at   time.Time
	span time.Duration
	d    wire.ServiceDemand
}

// serveDemand takes what workers say is asked for, until stop is called.
func (c *core) serveDemand() (stop func(), err error) {
	return c.local.Subscribe(exchange.DemandSubject("*"), func(_ context.Context, msg bus.Msg) {
		var d wire.Demand
		if len(msg.Data) > maxDemand || json.Unmarshal(msg.Data, &d) != nil {
			return // the next one comes in a moment
		}
		c.onDemand(token(msg.Subject, 1), &d, time.Now())
	})
}

// onDemand notes what is asked for at a worker.
func (c *core) onDemand(name string, d *wire.Demand, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.m.Workers[name]; w == nil || !w.Revoked.IsZero() || len(d.Services) > wire.MaxDemandServices {
		return
	}
	span := min(max(d.Span.Std(), epoch/4), 10*epoch)
	if c.m.answered(name, d.Answers[:min(len(d.Answers), wire.MaxDemandReplicas)], span, now) {
		loop.Poke(c.wake)
	}
	if c.m.answeredInUpgrade(name, d.Answers[:min(len(d.Answers), wire.MaxDemandReplicas)], span, now) {
		loop.Poke(c.upgrades)
	}
	for i := range d.Services {
		s := &d.Services[i]
		key := s.Key()
		share := c.m.delegated(key)
		if share == nil && c.m.Far[key] == nil {
			continue // nobody here knows it
		}
		s.Replicas = s.Replicas[:min(len(s.Replicas), wire.MaxDemandReplicas)]
		if c.m.leads(key) && c.m.flow(key, name, s, span, now) {
			loop.Poke(c.wake)
		}
		if c.m.clocked(key, s.Replicas, now) {
			loop.Poke(c.wake)
		}
		if share != nil {
			if _, elastic := boundsOf(share); !elastic {
				continue // how many there are does not follow from it
			}
		} else if !c.m.Far[key].Requests.Elastic {
			continue
		}
		book := c.demand[key]
		if book == nil {
			if len(c.demand) >= maxDemanded {
				continue
			}
			book = &demanded{said: map[string]said{}, scaler: scale.NewScaler()}
			if sc := c.m.scaled[key]; sc != nil {
				book.from = sc.Want
			}
			c.demand[key] = book
		}
		book.said[name] = said{at: now, span: span, d: *s}
	}
	if now.Sub(c.epochAt) >= epoch {
		loop.Poke(c.wake)
	}
}

// decide makes the decisions of an epoch if one is over, and reports whether any is
// news. The mutex is held.
func (c *core) decide(now time.Time) (news bool) {
	since := now.Sub(c.epochAt)
	if len(c.demand) == 0 || since >= 0 && since < epoch {
		return false
	}
	c.epochAt = now
	for _, key := range records.SortedKeys(c.demand) {
		next, goes := c.m.demandEpoch(key, c.demand[key], now)
		old := c.m.wants[key]
		if goes {
			delete(c.demand, key)
			delete(c.m.wants, key)
			news = news || old != nil
			continue
		}
		c.m.wants[key] = next
		if next.warning != "" {
			c.events.Add(now, c.m.Tier(), "service/"+key, next.warning)
			c.log.Warn(next.warning, "service", key)
		}
		sc := c.m.scaled[key]
		news = news || old == nil || old.Decision.Want != next.Decision.Want || sc != nil && sc.Fits > 0 && !now.Before(sc.Until)
	}
	return news
}

// untilEpoch is how long it is to the next one; false where nobody asks for anything.
func (c *core) untilEpoch(now time.Time) (time.Duration, bool) {
	return max(c.epochAt.Add(epoch).Sub(now), 0), len(c.demand) > 0
}

// revive forgets decisions that a process before made for demand that is not there
// any more: nobody asks, so as few as may be are enough.
func (c *core) revive() {
	for key := range c.m.scaled {
		if c.demand[key] == nil {
			c.demand[key] = &demanded{said: map[string]said{}, scaler: scale.NewScaler(), from: c.m.scaled[key].Want}
		}
	}
}

// demandEpoch is the decision of an epoch about one service; goes: nothing is to be
// decided about it until somebody asks for it again.
func (m *model) demandEpoch(key string, book *demanded, now time.Time) (_ *want, goes bool) {
	s, f := m.delegated(key), m.Far[key]
	b, spec := bounds{max: api.MaxReplicas}, (*api.Service)(nil)
	switch {
	case s != nil:
		spec = s.Spec
		var ok bool
		if b, ok = boundsOf(s); !ok {
			return nil, true // its number is fixed
		}
	case f == nil || !f.Requests.Elastic:
		return nil, true
	}
	rules := scale.Rules{Min: b.min, Max: b.max, Epoch: epoch}
	if b.extra > 0 {
		rules.Min = 0 // those that are there in any case serve others first
	}
	if spec != nil && !m.siteDecides(key) {
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
		for _, o := range ordinals(s) {
			i := m.Insts[instanceID(s.App, s.Service, o)]
			if i == nil || i.Draining || i.State != wire.Running && i.State != wire.WorkerScheduled {
				continue
			}
			startUp = max(startUp, i.StartUp.Std())
			if state.Asleep(i) && len(book.said) == 0 {
				continue // it was let sleep: nobody needs it
			}
			r := best[i.ID]
			ids[i.ID] = o
			in.Replicas = append(in.Replicas, scale.Replica{ID: i.ID, RPS: r.RPS, Exec: r.Exec.Std(), Waiting: r.Waiting, Ready: i.State == wire.Running && i.Ready})
		}
		// Those that run for others do not count.
		in.Replicas = in.Replicas[:max(0, len(in.Replicas)-b.extra)]
	}
	in.Replicas = append(in.Replicas, elsewhere(best, ids, book, len(in.Replicas))...)
	if startUp > 0 && book.scaler.Starts.Time() == 0 {
		book.scaler.Starts.Observe(startUp)
	}
	d := book.scaler.Decide(rules, in, now)
	next := &want{Decision: wire.ScaleDecision{
		V: wire.Version, At: now.Round(0), Want: d.Want, From: book.from, Why: d.Why, Min: b.min, Max: b.max,
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
	book.from = d.Want
	if d.Warning != "" {
		next.warning = d.Warning
	}
	sc := m.scaled[key]
	return next, len(book.said) == 0 && d.Want <= b.min && (sc == nil || sc.Want == d.Want)
}

// elsewhere are the replicas in other clusters that run for the requests which enter
// here: as many as the last decision wanted beyond the have that are here, of those
// that the routers use. What they do not know yet is on its way.
func elsewhere(best map[wire.InstanceID]wire.ReplicaDemand, here map[string]int, book *demanded, have int) (out []scale.Replica) {
	if len(book.said) == 0 {
		return nil
	}
	for _, id := range records.SortedKeys(best) {
		if _, ok := here[id]; ok || have+len(out) >= book.from {
			continue
		}
		r := best[id]
		out = append(out, scale.Replica{ID: id, RPS: r.RPS, Exec: r.Exec.Std(), Waiting: r.Waiting, Ready: true})
	}
	for have+len(out) < book.from {
		out = append(out, scale.Replica{})
	}
	return out
}

// sum is the demand of all workers, and each replica as it is known best.
func (b *demanded) sum(now time.Time) (in scale.Demand, best map[wire.InstanceID]wire.ReplicaDemand) {
	best = map[wire.InstanceID]wire.ReplicaDemand{}
	for name, s := range b.said {
		if age := now.Sub(s.at); age > staleAfter || age < 0 {
			delete(b.said, name)
			continue
		}
		in.Rate += finite(float64(s.d.Requests) / s.span.Seconds())
		in.Refused += finite(float64(s.d.Refused) / s.span.Seconds())
		waiting := max(0, s.d.Waiting)
		for _, r := range s.d.Replicas {
			r.RPS, r.Waiting, r.Exec = finite(r.RPS), max(0, r.Waiting), max(0, r.Exec)
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

// finite is a figure that a worker said, as far as one can reckon with it.
func finite(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	return min(v, 1e9)
}

// trouble is what keeps an instance from running, and which; "" where nothing does.
func (t *tx) trouble(i *wire.Instance) string {
	if i.Draining || i.Reason == "" || i.State == wire.Running || i.State == wire.Terminated || strings.HasPrefix(i.Reason, "asleep: the next request starts it") && !strings.Contains(i.Reason, "what it needs") {
		return ""
	}
	why := i.Reason
	if was := t.failure(i); was != "" && was != why {
		why += "; it failed before: " + was
	}
	return cut(i.ID+": "+why, wire.MaxShortWords)
}

// scaleReport says how many instances of a service run here, and why.
func (c *core) scaleReport(key string) (wire.ScaleReport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	app, service, _ := strings.Cut(key, ".")
	out := wire.ScaleReport{V: wire.Version, Cluster: c.name, App: app, Service: service}
	s := c.m.delegated(key)
	if s == nil && c.m.Far[key] == nil {
		return out, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s is not in cluster %s", key, c.name)
	}
	if s != nil {
		_, ok := boundsOf(s)
		out.Fixed = !ok || c.m.siteDecides(key) && s.Min == s.Max
		out.Min, out.Max, out.Extra = s.Min, s.Max, s.Extra
	}
	t := c.m.reads()
	for _, i := range t.Instances() {
		if i.App == app && i.Service == service && !i.Draining && (i.State == wire.Running || i.State == wire.WorkerScheduled) {
			out.Placed++
			if !state.Asleep(i) {
				out.Awake++
			}
		}
		if i.App == app && i.Service == service && out.Trouble == "" {
			out.Trouble = t.trouble(i)
		}
	}
	short := c.m.short(key)
	out.Short, out.Full = short.Short+short.Unmet, short.Full
	if w := c.m.wants[key]; w != nil {
		d := w.Decision
		out.Now = &d
	} else {
		out.Asked = c.demand[key] != nil
	}
	if sc := c.m.scaled[key]; sc != nil {
		out.Last = sc.Last
	}
	return out, nil
}
