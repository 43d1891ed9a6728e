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
	// Utilisation is how full replicas are to be where no objective says how long a
	// request may wait.
	Utilisation = 0.7
	// little is the part of a replica that is not worth one more: with an objective, the
	// queue takes it up, and if it does not, what waits asks for the replica.
	little = 0.25
	// patience is the part of the objective that requests may wait before more replicas
	// are asked for.
	patience = 0.4
	// unlimitedPlaces stands for concurrency 0 where a replica has never been full.
	unlimitedPlaces = 100
)

// Rules of one service.
type Rules struct {
	// Min and Max replicas. Max 0 is none at all.
	Min, Max int
	// Concurrency is how many requests a replica executes at once, 0 for any number.
	Concurrency int
	// SLO is the time within which a request is to be answered, 0 for no objective.
	SLO time.Duration
	// Idle is the time without a request after which Min 0 is gone to; 0 is
	// DefaultIdle.
	Idle time.Duration
	// Epoch is the time between decisions; 0 is DefaultEpoch.
	Epoch time.Duration
	// Grace is how many epochs in a row fewer replicas must be enough before there are
	// fewer; 0 is DefaultGrace.
	Grace int
	// Current makes the rate of now do for that of when a replica has started: no
	// prediction.
	Current bool
}

// Replica as the routers know it.
type Replica struct {
	ID string
	// RPS is what it can do, in requests per second, 0 where it is not known. Exec is
	// how long it works on a request, 0 where it is not known.
	RPS  float64
	Exec time.Duration
	// Waiting are the requests in its queue.
	Waiting int
	// Ready: it takes requests. Those that are not have been ordered and start.
	Ready bool
}

// Demand for a service in the epoch that has just ended. Replicas that end or sleep
// are not in it.
type Demand struct {
	// Rate and Refused are requests per second: all that came, and those of them that
	// were turned away.
	Rate, Refused float64
	// Waiting are the requests that are in no queue of a replica: held until there is
	// one.
	Waiting  int
	Replicas []Replica
}

// Scaler is what is remembered of a service between decisions. Make one with
// NewScaler.
type Scaler struct {
	predictor *Predictor
	// Starts is told how long starts take.
	Starts StartUp

	rps  float64 // newest capacity of one replica that was known
	exec time.Duration
	// asked is when there was demand last; zero before the first.
	asked time.Time
	// enough are the numbers that would have done, of the epochs in a row in which
	// fewer than there are would have.
	enough []int
	warned bool
}

// NewScaler of a service that nothing is known of.
func NewScaler() *Scaler { return &Scaler{predictor: NewPredictor()} }

// Decision of one epoch, and what it was made of.
type Decision struct {
	At time.Time
	// Want is how many there should be, Have how many there are or start, Ready how
	// many answer.
	Want, Have, Ready int
	// Why in one sentence, for people.
	Why string
	// Warning is for the operator, and given once; "" for none.
	Warning string

	Rules Rules
	// Rate and Refused now; Predicted is for Horizon epochs from now; Model is what
	// predicted it.
	Rate, Refused float64
	Predicted     Prediction
	Horizon       int
	StartUp       time.Duration
	// RPS is what one replica can do, 0 for not known, Exec how long it works on a
	// request.
	RPS     float64
	Exec    time.Duration
	Waiting int
	// ForRate and ForQueue are the replicas for the rate and to empty the queues in
	// time. Their sum is Asked, before bounds.
	ForRate, ForQueue, Asked int
	// Less is in how many epochs in a row fewer would have been enough.
	Less int
	// Stay are the replicas by how much they are worth, the best first: if some have
	// to go, it is the last of these.
	Stay []string
}

// Decide how many replicas there should be. It is called once per epoch and service,
// also in epochs without a request.
func (s *Scaler) Decide(r Rules, d Demand, now time.Time) Decision {
	r.Epoch, r.Idle = cmp.Or(r.Epoch, DefaultEpoch), cmp.Or(r.Idle, DefaultIdle)
	r.Grace = cmp.Or(max(r.Grace, 0), DefaultGrace)
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

// learn what replicas can do, and rank them.
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

// better ranks replicas: who can do more, then who has more to do already. What is
// within a fifth is the same: it is measured.
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

// forRate is how many it takes to keep up.
func (s *Scaler) forRate(r Rules, replicas []Replica, out *Decision) int {
	rate := s.rate(r, out)
	if rate == 0 {
		return 0
	}
	if s.rps == 0 {
		return max(out.Have, 1) // nothing is known yet: what is there will tell
	}
	if r.SLO == 0 || r.SLO <= s.exec {
		rate /= Utilisation
	} else {
		rate = max(rate-little*s.rps, min(rate, 1e-3))
	}
	return s.enoughFor(rate, replicas)
}

// rate to be ready for: the predicted one, where a model is trusted and not far off
// already. The larger of now and predicted would be the upper edge of all noise.
func (s *Scaler) rate(r Rules, out *Decision) float64 {
	switch p := out.Predicted; {
	case r.Current:
		return out.Rate
	case p.Window > 0 && out.Rate <= p.Rate+3*p.Error:
		return p.Rate
	default:
		return max(out.Rate, p.Rate)
	}
}

// enoughFor a rate above 0, the best replicas first; what is beyond those that there
// are is like their mean.
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

// forQueue is how many more it takes to answer in time what waits already. What the
// replicas there are get done in a part of the objective is no reason for more.
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
	over := float64(out.Waiting) - s.rps*float64(out.Ready)*patience*r.SLO.Seconds()
	if over <= 0 {
		return 0
	}
	rate := max(s.rate(r, out)-little*s.rps, 0) + over/(r.SLO-s.exec).Seconds()
	return max(0, s.enoughFor(rate, replicas)-out.ForRate)
}

// bound makes of what is asked for what is wanted: not twice as many at once, fewer
// only after a while, none only after a longer one, and within the rules.
func (s *Scaler) bound(r Rules, out *Decision) {
	want := out.Asked
	switch {
	case out.Have == 0 && want > 0:
		want = max(out.ForRate, 1)
		out.Why = "the first request came"
	case want > out.Have:
		if limit := 2 * out.Have; want > limit {
			want = limit
			out.Why = fmt.Sprintf("%d asked for, at most twice as many at once", out.Asked)
		} else {
			out.Why = fmt.Sprintf("%d for the rate, %d for what waits", out.ForRate, out.ForQueue)
		}
	}
	if want >= out.Have {
		s.enough = s.enough[:0]
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

// fewer than there are would be enough: so many stay.
func (s *Scaler) fewer(r Rules, want int, out *Decision) int {
	if len(s.enough) >= r.Grace {
		s.enough = append(s.enough[:0], s.enough[len(s.enough)-r.Grace+1:]...)
	}
	s.enough = append(s.enough, want)
	out.Less = len(s.enough)
	if out.Less < r.Grace {
		out.Why = fmt.Sprintf("%d would be enough, for %d of %d epochs", want, out.Less, r.Grace)
		return out.Have
	}
	most := slices.Max(s.enough)
	out.Why = fmt.Sprintf("%d were enough for %d epochs", most, r.Grace)
	return min(most, out.Have)
}
