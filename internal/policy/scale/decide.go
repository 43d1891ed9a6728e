package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Defaults of Rules.
const (
	DefaultEpoch = 2 * time.Second
	DefaultGrace = 16
	DefaultIdle  = time.Minute
	// DefaultGrowth and DefaultBurst limit how many replicas one epoch may add.
	DefaultGrowth = 2.0
	DefaultBurst  = 64
	// Utilisation is the target for replicas of a service without an objective, or with one that
	// cannot be met.
	Utilisation = 0.7
	// little is the part of a replica that does not justify another one: with an objective the
	// queue absorbs it, and if it does not, the waiting requests ask for the replica.
	little = 0.1
	// assumedExec is the part of its objective that a request is assumed to take until the first one
	// is answered.
	assumedExec = 0.2
	// waitShare is the part of the objective that requests may wait before more replicas are asked
	// for.
	waitShare = 0.4
	// unlimitedPlaces stands for concurrency 0 if a replica has never been full.
	unlimitedPlaces = 100
)

// Rules of one service.
type Rules struct {
	// Min and Max replicas. Max 0 is none at all; Max below Min counts as Min.
	Min, Max int
	// Concurrency is how many requests a replica executes at once, 0 for any number.
	Concurrency int
	// SLO is the time within which a request should be answered, 0 for no objective.
	SLO time.Duration
	// Idle is the time without a request before a service with Min 0 scales to 0; 0 is DefaultIdle.
	Idle time.Duration
	// Epoch is the time between decisions; 0 is DefaultEpoch.
	Epoch time.Duration
	// Grace is for how many epochs a need is remembered. The replicas of a peak are removed one after
	// the other over that many epochs; 0 is DefaultGrace. A shorter one costs less and serves fewer
	// requests in time, also because less is then added for the error of the prediction.
	Grace int
	// Growth is the factor by which one epoch may multiply the replicas, at least 1; 0 is
	// DefaultGrowth. It does not bind up to Burst replicas, 0 for DefaultBurst: a burst that meets a
	// single replica must not wait for several rounds of starts.
	Growth float64
	Burst  int
	// Current plans for the current rate, without prediction.
	Current bool
}

// Replica as the routers know it.
type Replica struct {
	ID string
	// RPS is its capacity in requests per second, Exec its execution time per request; both are 0
	// if unknown.
	RPS  float64
	Exec time.Duration
	// Waiting counts the requests in its queue.
	Waiting int
	// Ready: it takes requests. The others have been ordered and are starting.
	Ready bool
}

// Demand for a service in the epoch that has just ended, without replicas that stop or sleep.
type Demand struct {
	// Rate and Refused are requests per second: all that arrived, and those of them that were
	// rejected.
	Rate, Refused float64
	// Waiting counts the requests that are held until there is a replica.
	Waiting  int
	Replicas []Replica
}

// Scaler is the state of a service between decisions. Make one with NewScaler.
type Scaler struct {
	predictor *Predictor
	// Starts takes the observed start-up times.
	Starts StartUp

	rps  float64 // latest known capacity of one replica
	exec time.Duration
	// asked is when there was demand last; zero before the first decision.
	asked time.Time
	// needs are those of the newest epochs, at most the grace of them, the newest last; less counts
	// those in a row in which fewer replicas than existed sufficed.
	needs  []int
	less   int
	warned bool
}

// NewScaler returns a scaler without history.
func NewScaler() *Scaler { return &Scaler{predictor: NewPredictor()} }

// Decision is the result of one epoch, with its inputs.
type Decision struct {
	At time.Time
	// Want is the target number of replicas, Have how many exist or start, Ready how many take
	// requests.
	Want, Have, Ready int
	// Why in one sentence, for people.
	Why string
	// Warning is for the operator, given once; "" for none.
	Warning string

	Rules Rules
	// Rate and Refused are those of the epoch; Predicted is for Horizon epochs from now.
	Rate, Refused float64
	Predicted     Prediction
	Horizon       int
	StartUp       time.Duration
	// RPS is the capacity of one replica, Exec its execution time per request; 0 if unknown.
	RPS     float64
	Exec    time.Duration
	Waiting int
	// ForRate and ForQueue are the replicas needed for the rate and to empty the queues in time;
	// Asked is their sum, before bounds.
	ForRate, ForQueue, Asked int
	// Less counts the epochs in a row in which fewer would have sufficed.
	Less int
	// Stay ranks the replicas, the best first: if some have to go, the last ones do.
	Stay []string
}

// Decide how many replicas there should be. It is called once per epoch and service,
// also in epochs without a request.
func (s *Scaler) Decide(r Rules, d Demand, now time.Time) Decision {
	r.Epoch, r.Idle = cmp.Or(r.Epoch, DefaultEpoch), cmp.Or(r.Idle, DefaultIdle)
	r.Grace = cmp.Or(max(r.Grace, 0), DefaultGrace)
	r.Growth, r.Burst = max(cmp.Or(finite(r.Growth), DefaultGrowth), 1), cmp.Or(max(r.Burst, 0), DefaultBurst)
	r.Min, r.Max = max(r.Min, 0), max(r.Max, r.Min, 0)
	out := Decision{
		At: now, Rules: r, Have: len(d.Replicas), Rate: finite(d.Rate), Refused: finite(d.Refused),
		Waiting: max(d.Waiting, 0), Horizon: s.Starts.horizon(r.Epoch), StartUp: s.Starts.Time(),
	}
	out.Predicted = s.predictor.Observe(out.Rate, out.Horizon)
	replicas := s.learn(r, d, &out)
	for _, x := range replicas {
		out.Stay = append(out.Stay, x.ID)
	}
	if out.Rate > 0 || out.Waiting > 0 || s.asked.IsZero() {
		s.asked = now
	}
	out.ForRate = s.forRate(r, replicas, &out)
	out.ForQueue = s.forQueue(r, replicas, &out)
	out.Asked = out.ForRate + out.ForQueue
	s.bound(r, &out)
	return out
}

func finite(v float64) float64 {
	if !(v > 0) || v > 1e12 {
		return 0
	}
	return v
}

// learn updates the capacity and execution time, and ranks the replicas.
func (s *Scaler) learn(r Rules, d Demand, out *Decision) []Replica {
	replicas := slices.Clone(d.Replicas)
	sum, known := 0.0, 0
	var exec time.Duration
	times := 0
	for i := range replicas {
		x := &replicas[i]
		x.RPS, x.Waiting = finite(x.RPS), max(x.Waiting, 0)
		out.Waiting += x.Waiting
		if x.Ready {
			out.Ready++
		}
		if x.RPS > 0 {
			sum += x.RPS
			known++
		}
		if x.Exec > 0 {
			exec += x.Exec
			times++
		}
	}
	if times > 0 {
		s.exec = exec / time.Duration(times)
	}
	if known > 0 {
		s.rps = sum / float64(known)
	} else if s.rps == 0 && s.exec > 0 {
		s.rps = float64(cmp.Or(r.Concurrency, unlimitedPlaces)) / s.exec.Seconds()
	}
	out.RPS, out.Exec = s.rps, s.exec
	for i := range replicas {
		if replicas[i].RPS == 0 {
			replicas[i].RPS = s.rps
		}
	}
	slices.SortFunc(replicas, better)
	return replicas
}

// better ranks replicas: ready ones, then by capacity, then those with most waiting. Capacities
// within a fifth are equal: they are measured.
func better(a, b Replica) int {
	if a.Ready != b.Ready {
		if a.Ready {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(step(b.RPS), step(a.RPS)), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.ID, b.ID))
}

func step(rps float64) float64 {
	if rps <= 0 {
		return -1
	}
	return math.Round(math.Log(rps) / math.Log(1.2))
}

// forRate is the number of replicas needed for the rate.
func (s *Scaler) forRate(r Rules, replicas []Replica, out *Decision) int {
	rate := s.rate(r, out)
	if rate == 0 {
		return 0
	}
	if s.rps == 0 {
		// Nothing is known yet: the replicas will tell.
		per := float64(cmp.Or(r.Concurrency, unlimitedPlaces)) / (assumedExec * r.SLO.Seconds())
		return max(out.Have, 1, min(int(min(math.Ceil(rate/per), 1e6)), r.Burst))
	}
	if r.SLO == 0 || r.SLO <= s.exec {
		rate /= Utilisation
	} else {
		rate = max(rate-little*s.rps, min(rate, 1e-3))
	}
	return s.enoughFor(rate, replicas)
}

// rate to plan for: the predicted one and its usual error, if the models are trusted and not yet far
// off. The larger of current and predicted would be the upper edge of all noise. A short grace says
// that replicas cost more than late requests: it takes less of the error.
func (s *Scaler) rate(r Rules, out *Decision) float64 {
	p := out.Predicted
	switch {
	case r.Current:
		return out.Rate
	case out.Rate == 0 && out.Waiting == 0 && (p.Rate*r.Epoch.Seconds() < 1 || out.Have == 0 && p.Rate < p.Error):
		return 0 // what the models remember of a busy time keeps and starts nothing; a sure prediction does
	case p.Weight > 0 && out.Rate <= p.Rate+3*p.Error:
		return p.Rate + min(p.Error, p.Rate)*min(1, float64(r.Grace)/DefaultGrace)
	default:
		return max(out.Rate, p.Rate)
	}
}

// enoughFor is how many replicas handle a rate above 0, the best first; those beyond the existing
// ones have the mean capacity.
func (s *Scaler) enoughFor(rate float64, replicas []Replica) int {
	n := 0
	for _, x := range replicas {
		if rate <= 1e-9 {
			return n
		}
		n++
		rate -= x.RPS
	}
	if rate <= 1e-9 {
		return n
	}
	return n + int(math.Ceil(min(rate/s.rps, 1e6)))
}

// forQueue is how many more replicas it takes to answer the waiting requests in time. Those that
// the ready ones finish within waitShare of the objective need no more.
func (s *Scaler) forQueue(r Rules, replicas []Replica, out *Decision) int {
	if r.SLO == 0 || s.rps == 0 {
		return 0
	}
	if r.SLO <= s.exec {
		if !s.warned {
			s.warned = true
			out.Warning = fmt.Sprintf("the objective of %v cannot be met: a request alone takes %v; replicas follow the rate, "+
				"at %.0f %% of what they can do. Make slo longer than that, or the service faster",
				r.SLO, s.exec.Round(time.Millisecond), 100*Utilisation)
		}
		return 0
	}
	over := float64(out.Waiting) - s.rps*float64(out.Ready)*waitShare*r.SLO.Seconds()
	if over <= 0 {
		return 0
	}
	rate := max(s.rate(r, out)-little*s.rps, 0) + over/(r.SLO-s.exec).Seconds()
	return max(0, s.enoughFor(rate, replicas)-out.ForRate)
}

// bound limits the number asked for: by growth, fewer only one after the other, none only after a
// while, and within the rules.
func (s *Scaler) bound(r Rules, out *Decision) {
	want := out.Asked
	switch {
	case out.Have == 0 && want > 0:
		want = max(out.ForRate, 1)
		out.Why = "the first request came"
	case want > out.Have:
		if limit := max(int(r.Growth*float64(out.Have)), r.Burst); want > limit {
			want = limit
			out.Why = fmt.Sprintf("%d asked for, at most %d at once", out.Asked, limit)
		} else {
			out.Why = fmt.Sprintf("%d for the rate, %d for what waits", out.ForRate, out.ForQueue)
		}
	}
	s.remember(r, min(want, r.Max), out.Have)
	if want >= out.Have {
		s.less = 0
		if out.Why == "" {
			out.Why = "as many as are needed"
		}
	} else {
		want = s.fewer(r, want, out)
	}
	if idle := out.At.Sub(s.asked); r.Min == 0 && out.Have > 0 && idle >= r.Idle && out.Waiting == 0 {
		want = 0
		out.Why = fmt.Sprintf("nobody has asked for %v", r.Idle)
	} else if out.Have > 0 {
		want = max(want, 1)
	}
	if want < r.Min {
		want = r.Min
		out.Why = fmt.Sprintf("%d are the fewest there may be", r.Min)
	}
	if want > r.Max {
		want = r.Max
		out.Why = fmt.Sprintf("%d asked for, %d are the most there may be", out.Asked, r.Max)
	}
	out.Want = want
}

// remember the need of this epoch.
func (s *Scaler) remember(r Rules, need, have int) {
	if len(s.needs) == 0 {
		// It has just been made: the existing replicas were needed, as far as it knows.
		s.needs = append(s.needs, max(need, have))
		return
	}
	if over := len(s.needs) - r.Grace + 1; over > 0 {
		s.needs = append(s.needs[:0], s.needs[over:]...)
	}
	s.needs = append(s.needs, need)
}

// fewer handles an epoch in which fewer would suffice, and returns how many stay. Of what a past
// epoch needed beyond the current need, a part stays that falls to nothing over the grace: a peak
// that comes back soon is met, and one that does not costs half of what keeping it would.
func (s *Scaler) fewer(r Rules, want int, out *Decision) int {
	s.less++
	out.Less = s.less
	stay := want
	for i, need := range s.needs {
		age := len(s.needs) - 1 - i
		if need > want {
			stay = max(stay, want+((need-want)*(r.Grace-age)+r.Grace-1)/r.Grace)
		}
	}
	if stay = min(stay, out.Have); stay > want {
		out.Why = fmt.Sprintf("%d would be enough; of those needed in the last %d epochs %d stay", want, len(s.needs), stay)
	} else {
		out.Why = fmt.Sprintf("%d are enough", want)
	}
	return stay
}
