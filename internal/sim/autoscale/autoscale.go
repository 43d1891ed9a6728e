// Package autoscale compares autoscalers, ours, Knative's and Kubernetes', on the same requests,
// pods and routing. It simulates each request, which gets a place or is queued at the pod with the
// fewest; capacity is measured by the Meter and Capacity of the running system.
package autoscale

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/policy/scale/kpa"
)

// Algorithm decides.
type Algorithm string

// The algorithms.
const (
	Ours        Algorithm = "verge"
	OursNaive   Algorithm = "verge-naive" // without prediction
	RPS         Algorithm = "kpa-rps"
	Concurrency Algorithm = "kpa-concurrency"
	HPA         Algorithm = "hpa"
)

// All of them.
func All() []Algorithm { return []Algorithm{Ours, OursNaive, RPS, Concurrency, HPA} }

// Admission of requests: each is a comparison of its own.
type Admission string

// The zero value compares products: Verge rejects what it cannot answer in time, the others have no
// such rule. The other two compare scaling alone.
const (
	AdmissionOfVerge Admission = ""
	AdmissionOfAll   Admission = "all"
	AdmissionOfNone  Admission = "none"
)

// Setting of a run. All pods are alike.
type Setting struct {
	Places, QueueMax int
	Exec, SLO, Start time.Duration
	// Most is the maximum of pods of all services together; 0 for any number.
	Most int
	// Least is the minimum of pods of each service, which exist from the beginning.
	Least int
	Grace int
	// Admission says whose requests are rejected if their predicted wait exceeds the objective.
	Admission Admission
	Seed      uint64
	// Knative decides for the two algorithms of Knative, with this target per pod; nil: the rules
	// of package kpa.
	Knative func(how Algorithm, target float64) Knative
}

// Knative decides like Knative's autoscaler; see kpa.Scaler.
type Knative interface {
	Observe(value float64, now time.Time)
	Decide(ready int, now time.Time) (pods int, ok bool)
}

var _ Knative = (*kpa.Scaler)(nil)

// Result of one service.
type Result struct {
	Requests, Within, Refused int
	P50, P99                  time.Duration
	// Pods, mean and maximum: those that start, run and end.
	Pods    float64
	MaxPods int
	// Starts of pods.
	Starts int
	// Pods of each second.
	Each []int
}

// Share within the objective.
func (r Result) Share() float64 { return float64(r.Within) / float64(max(1, r.Requests)) }

var epoch = time.Unix(1_600_000_000, 0).UTC()

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

type request struct {
	came  float64
	token scale.Token
}

type running struct {
	request
	ends float64
}

type pod struct {
	id       string
	ready    float64
	meter    scale.Meter
	capacity scale.Capacity
	queue    []request
	run      []running // in the order of their ends: all take equally long
}

type service struct {
	rates         []float64
	rng           *rand.Rand
	pods, ending  []*pod
	held          []request
	born          int
	want          int
	ours          *scale.Scaler
	knative       Knative
	hpa           kpa.HPA
	inUse         []float64 // of each second
	came, refused int       // in this epoch
	times         []float64
	out           Result
}

type world struct {
	Setting
	how      Algorithm
	services []*service
}

// Run simulates services with these rates, one per second, in one data centre.
func Run(set Setting, how Algorithm, rates ...[]float64) []Result {
	w := &world{Setting: set, how: how}
	per := float64(set.Places) / set.Exec.Seconds()
	seconds := 0
	for i, v := range rates {
		s := &service{rates: v, rng: rand.New(rand.NewPCG(set.Seed, uint64(i))), ours: scale.NewScaler()}
		s.hpa.Target = kpa.Utilisation
		target := kpa.Utilisation * per
		if how == Concurrency {
			target = kpa.Utilisation * float64(set.Places)
		}
		if set.Knative != nil {
			s.knative = set.Knative(how, target)
		} else {
			s.knative = kpa.NewScaler(target)
		}
		for range set.Least {
			s.born++
			s.pods = append(s.pods, &pod{id: "p" + strconv.Itoa(s.born), meter: scale.NewMeter(epoch)})
		}
		w.services = append(w.services, s)
		seconds = max(seconds, len(v))
	}
	for second := range seconds {
		for _, s := range w.services {
			w.second(s, second)
		}
		if second%2 == 1 {
			w.decide(float64(second + 1))
		}
	}
	out := make([]Result, len(w.services))
	for i, s := range w.services {
		end := float64(seconds) + 1000
		for _, p := range slices.Concat(s.pods, s.ending) {
			w.until(s, p, end)
		}
		slices.Sort(s.times)
		if n := len(s.times); n > 0 {
			s.out.P50 = time.Duration(s.times[n/2] * float64(time.Second))
			s.out.P99 = time.Duration(s.times[n*99/100] * float64(time.Second))
		}
		for _, n := range s.out.Each {
			s.out.Pods += float64(n) / float64(len(s.out.Each))
		}
		out[i] = s.out
	}
	return out
}

// second simulates a second of a service: requests and samples.
func (w *world) second(s *service, n int) {
	from := float64(n)
	rate := 0.0
	if n < len(s.rates) {
		rate = s.rates[n]
	}
	came, busy := 0, 0
	sample := from
	look := func(until float64) {
		for ; sample < until; sample += 0.1 {
			w.release(s, from, sample)
			for _, p := range s.pods {
				w.until(s, p, sample)
				busy += len(p.run) + len(p.queue)
			}
			busy += len(s.held)
		}
	}
	if rate > 0 {
		for t := from + s.rng.ExpFloat64()/rate; t < from+1; t += s.rng.ExpFloat64() / rate {
			look(t)
			came++
			w.arrive(s, t)
		}
	}
	look(from + 1 - 1e-9)
	s.came += came
	use := float64(busy) / 10
	s.inUse = append(s.inUse, use)
	value := float64(came)
	if w.how == Concurrency {
		value = use
	}
	if s.ready(from+1) > 0 || came > 0 || use > 0 {
		s.knative.Observe(value, at(from+1))
	}
	s.ending = slices.DeleteFunc(s.ending, func(p *pod) bool {
		w.until(s, p, from+1)
		return len(p.run)+len(p.queue) == 0
	})
	pods := len(s.pods) + len(s.ending)
	s.out.Each, s.out.MaxPods = append(s.out.Each, pods), max(s.out.MaxPods, pods)
}

// release sends held requests to pods that have become ready in the second that began at from: the
// last request must not wait for the next one.
func (w *world) release(s *service, from, until float64) {
	if len(s.held) == 0 {
		return
	}
	var ready *pod
	for _, p := range s.pods {
		if p.ready <= until && (ready == nil || p.ready < ready.ready) {
			ready = p
		}
	}
	if ready == nil {
		return
	}
	for _, h := range s.held {
		w.give(s, ready, h, max(ready.ready, from, h.came))
	}
	s.held = s.held[:0]
}

// arrive sends a request to the pod with the fewest, and holds it if there is none.
func (w *world) arrive(s *service, t float64) {
	s.out.Requests++
	var best *pod
	for _, p := range s.pods {
		if p.ready > t {
			continue
		}
		w.until(s, p, t)
		if best == nil || len(p.run)+len(p.queue) < len(best.run)+len(best.queue) {
			best = p
		}
	}
	q := request{came: t}
	if best == nil {
		if len(s.held) >= w.QueueMax {
			s.refuse()
			return
		}
		s.held = append(s.held, q)
		return
	}
	for _, h := range s.held {
		w.give(s, best, h, t)
	}
	s.held = s.held[:0]
	w.give(s, best, q, t)
}

func (s *service) refuse() { s.out.Refused++; s.refused++ }

func (w *world) give(s *service, p *pod, q request, t float64) {
	if len(p.queue) >= w.QueueMax {
		s.refuse()
		return
	}
	if w.admits() {
		rps, _ := p.capacity.RPS()
		if rps == 0 {
			rps = float64(w.Places) / w.Exec.Seconds()
		}
		left := w.SLO - time.Duration((t-q.came)*float64(time.Second))
		if ok, _ := scale.Admit(max(left, 1), 1, func(int) scale.Load {
			return scale.Load{Ahead: len(p.run) + len(p.queue), RPS: rps, Concurrency: w.Places, Exec: w.Exec}
		}); !ok {
			s.refuse()
			return
		}
	}
	q.token = p.meter.Arrived(at(t))
	p.queue = append(p.queue, q)
	w.start(p, t)
}

// admits says whether a request may be rejected for its predicted wait.
func (w *world) admits() bool {
	return w.Admission == AdmissionOfAll || w.Admission == AdmissionOfVerge && (w.how == Ours || w.how == OursNaive)
}

func (w *world) start(p *pod, t float64) {
	for len(p.queue) > 0 && len(p.run) < w.Places {
		r := running{request: p.queue[0], ends: t + w.Exec.Seconds()}
		p.queue = p.queue[1:]
		p.meter.Started(&r.token, at(t))
		p.run = append(p.run, r)
	}
}

// until ends the requests that end by a time.
func (w *world) until(s *service, p *pod, t float64) {
	for len(p.run) > 0 && p.run[0].ends <= t {
		r := p.run[0]
		p.run = p.run[1:]
		p.meter.Finished(&r.token, at(r.ends))
		took := r.ends - r.came
		s.times = append(s.times, took)
		if took <= w.SLO.Seconds() {
			s.out.Within++
		}
		w.start(p, r.ends)
	}
}

// decide runs at the end of each epoch of two seconds.
func (w *world) decide(t float64) {
	total := 0
	for _, s := range w.services {
		for _, p := range s.pods {
			w.until(s, p, t)
			p.capacity.Observe(p.meter.Report(at(t)), w.Places, at(t))
		}
		s.want = max(w.wanted(s, t), w.Least)
		s.came, s.refused = 0, 0
		total += s.want
	}
	if w.Most > 0 && total > w.Most {
		w.share()
	}
	for _, s := range w.services {
		for len(s.pods) > s.want {
			s.ending = append(s.ending, s.pods[len(s.pods)-1])
			s.pods = s.pods[:len(s.pods)-1]
		}
	}
	w.fill(t)
}

// ready counts the pods that are ready at a time.
func (s *service) ready(t float64) int {
	n := 0
	for _, p := range s.pods {
		if p.ready <= t {
			n++
		}
	}
	return n
}

func (w *world) wanted(s *service, t float64) int {
	ready := s.ready(t)
	mean := func(v []float64, n int) float64 {
		sum := 0.0
		v = v[max(0, len(v)-n):]
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	switch w.how {
	case RPS, Concurrency:
		n, ok := s.knative.Decide(ready, at(t))
		if !ok {
			return len(s.pods)
		}
		return n
	case HPA:
		if int(t)%16 != 0 && len(s.pods) > 0 {
			return len(s.pods) // it decides every 15 s
		}
		return s.hpa.Decide(min(1, mean(s.inUse, 15)/float64(max(1, ready)*w.Places)), max(1, len(s.pods)), at(t))
	}
	d := scale.Demand{Rate: float64(s.came) / 2, Refused: float64(s.refused) / 2, Waiting: len(s.held)}
	for _, p := range s.pods {
		rps, _ := p.capacity.RPS()
		d.Replicas = append(d.Replicas,
			scale.Replica{ID: p.id, RPS: rps, Exec: p.meter.Report(at(t)).Exec, Waiting: len(p.queue),
				Ready: p.ready <= t})
	}
	most := w.Most
	if most == 0 {
		most = 10000
	}
	got := s.ours.Decide(scale.Rules{Min: w.Least, Max: most, Concurrency: w.Places, SLO: w.SLO, Grace: w.Grace,
		Current: w.how == OursNaive}, d, at(t))
	rank := map[string]int{}
	for i, id := range got.Stay {
		rank[id] = i
	}
	slices.SortFunc(s.pods, func(a, b *pod) int { return rank[a.id] - rank[b.id] })
	return got.Want
}

// share divides the pods: ours by max-min fairness; with the others, services keep their pods and
// fill divides the rest.
func (w *world) share() {
	if w.how != Ours && w.how != OursNaive {
		return
	}
	asked := make([]int, len(w.services))
	for i, s := range w.services {
		asked[i], s.want = s.want, 0
	}
	for left := w.Most; left > 0; {
		least := -1
		for i, s := range w.services {
			if s.want < asked[i] && (least < 0 || s.want < w.services[least].want) {
				least = i
			}
		}
		if least < 0 {
			return
		}
		w.services[least].want++
		left--
	}
}

// fill starts wanted pods as long as there is room, round robin over services.
func (w *world) fill(t float64) {
	used := 0
	for _, s := range w.services {
		used += len(s.pods) + len(s.ending)
	}
	for started := true; started; {
		started = false
		for _, s := range w.services {
			if len(s.pods) >= s.want || w.Most > 0 && used >= w.Most {
				continue
			}
			s.born++
			s.out.Starts++
			s.ours.Starts.Observe(w.Start)
			s.pods = append(s.pods, &pod{id: "p" + strconv.Itoa(s.born), ready: t + w.Start.Seconds(),
				meter: scale.NewMeter(at(t))})
			used++
			started = true
		}
	}
}

// Ideal is the mean number of pods needed with perfect foresight and instant starts.
func Ideal(set Setting, rates []float64) float64 {
	sum := 0.0
	for _, r := range rates {
		sum += math.Ceil(r * set.Exec.Seconds() / float64(set.Places))
	}
	return sum / float64(max(1, len(rates)))
}
