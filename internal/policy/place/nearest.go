package place

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

// stand is a worker with replicas.
type stand struct {
	id  string
	cap float64   // requests per second of all of them, 0: unknown
	rtt []float64 // seconds, by entry
}

// market divides the traffic of a service among its replicas.
type market struct {
	t      *Traffic
	rate   float64
	exec   float64
	stands []stand
	// Scratch, by stand: requests per second, and the time of each under that load.
	load, time []float64
}

// newMarket returns the market of t with the existing replicas on the given workers that are
// not suspect.
func newMarket(t *Traffic, workers []WorkerView) *market {
	m := &market{t: t, exec: t.Exec.Std().Seconds()}
	for i := range t.Points {
		m.rate += t.Points[i].Rate
	}
	if len(t.Replicas) == 0 {
		return m
	}
	var here []*WorkerView
	for i := range workers {
		if w := &workers[i]; t.Replicas[w.ID] > 0 && !w.Suspect {
			here = append(here, w)
		}
	}
	slices.SortFunc(here, func(a, b *WorkerView) int { return cmp.Compare(a.ID, b.ID) })
	for _, w := range here {
		m.stands = append(m.stands, m.stand(w, t.Replicas[w.ID]))
	}
	return m
}

func (m *market) stand(w *WorkerView, replicas int) stand {
	s := stand{id: w.ID, cap: cmp.Or(cleanRate(w.Throughput), m.t.RPS) * float64(replicas),
		rtt: make([]float64, len(m.t.Points))}
	for p := range m.t.Points {
		s.rtt[p] = rttOf(&m.t.Points[p].At, w)
	}
	return s
}

func rttOf(t *Target, w *WorkerView) float64 {
	if rtt, ok := t.rtt(w); ok {
		return rtt.Seconds()
	}
	if km, ok := t.kilometres(w); ok {
		return km * PlaceRTT.Seconds()
	}
	return unknownRTT.Seconds()
}

// answer returns the time in seconds that replicas need for a request under a load in requests
// per second: that of an M/M/1 queue, up to crowded.
func (m *market) answer(s *stand, load float64) float64 {
	if s.cap <= 0 {
		return m.exec
	}
	exec := cmp.Or(m.exec, 1/s.cap)
	rho := load / s.cap
	if rho <= crowded {
		return exec / (1 - rho)
	}
	return exec/(1-crowded) + exec/((1-crowded)*(1-crowded))*(rho-crowded)
}

// expected returns the mean time of a request, in seconds, if each goes to the replica that
// answers it soonest, as with the policy fastest: the traffic is assigned in small parts, each
// to the soonest at that point. Without replicas it is +Inf.
func (m *market) expected() float64 {
	if len(m.stands) == 0 {
		return math.Inf(1)
	}
	m.load = append(m.load[:0], make([]float64, len(m.stands))...)
	m.time = m.time[:0]
	for s := range m.stands {
		m.time = append(m.time, m.answer(&m.stands[s], 0))
	}
	sum := 0.0
	for range quanta {
		for p := range m.t.Points {
			best, least := 0, math.Inf(1)
			for s := range m.stands {
				if at := m.stands[s].rtt[p] + m.time[s]; at < least {
					best, least = s, at
				}
			}
			part := m.t.Points[p].Rate / quanta
			sum += part * m.stands[best].rtt[p]
			m.load[best] += part
			m.time[best] = m.answer(&m.stands[best], m.load[best])
		}
	}
	for s, load := range m.load {
		sum += load * m.time[s]
	}
	return sum / m.rate
}

// with is expected with one more replica on a worker.
func (m *market) with(w *WorkerView) float64 {
	one := m.stand(w, 1)
	if k := slices.IndexFunc(m.stands, func(s stand) bool { return s.id == w.ID }); k >= 0 { // more can be done there
		m.stands[k].cap += one.cap
		defer func() { m.stands[k].cap -= one.cap }()
		return m.expected()
	}
	m.stands = append(m.stands, one)
	sum := m.expected()
	m.stands = m.stands[:len(m.stands)-1]
	return sum
}

// bound returns the sum of the round trips, by rate, with one more replica of unlimited
// capacity on a worker. It selects the shortlist.
func (m *market) bound(w *WorkerView, nearest []float64) (sum float64) {
	for p := range nearest {
		sum += m.t.Points[p].Rate * min(nearest[p], rttOf(&m.t.Points[p].At, w))
	}
	return sum
}

// nearest places a replica where the mean expected time of the requests becomes least. Of
// the workers that fit, only a shortlist by round trips is evaluated in full.
func nearest(workers []WorkerView, req Request, d Decision) Decision {
	m := newMarket(req.Traffic, workers)
	closest := make([]float64, len(m.t.Points))
	if len(workers) > MaxInputs { // the entries with most requests suffice for the shortlist
		closest = closest[:min(len(closest), heaviest)]
	}
	for p := range closest {
		closest[p] = unknownRTT.Seconds()
		for s := range m.stands {
			closest[p] = min(closest[p], m.stands[s].rtt[p])
		}
	}
	s := newScan(scorers[NearestDemand], &d.Request)
	var all []candidate
	for i := range workers {
		w := &workers[i]
		free := freeOf(w)
		if removed := reject(w, s.req, s.avoid, s.demand, free); removed.filter != passed {
			s.log.remove(removed, w.ID)
			continue
		}
		c := candidate{view: w, key: index.RingOf(w.ID) - s.seed}
		s.how.judge(&c, fit{amount.ToVec(w.Capacity), free, s.demand, cleanRate(w.Throughput)}, max(0, w.Same), s.soft)
		c.advice = m.bound(w, closest)
		all = append(all, c)
	}
	first := func(a, b candidate) int {
		if r := cmp.Compare(a.advice, b.advice); r != 0 {
			return r
		}
		if a.before(&b) {
			return -1
		}
		return 1 // never equal: the ids differ
	}
	slices.SortFunc(all, first)
	short := all[:min(len(all), shortlist)]
	for i := range short {
		short[i].advice = m.with(short[i].view)
	}
	slices.SortFunc(short, first)
	d.Filtered = s.log.filters()
	for i := range min(len(short), maxRanked) {
		c := &short[i]
		d.Ranked = append(d.Ranked, Ranked{ID: c.view.ID, Score: 1000 * c.advice,
			Parts: map[string]float64{"same": float64(c.has), "rom": c.score}})
	}
	if len(short) == 0 {
		d.Reason = s.log.workerReason(d.Candidates)
		return d
	}
	d.Chosen = short[0].view.ID
	return d
}

// Expected returns the expected mean time of a request of this traffic with the existing
// replicas; false without requests or without replicas.
func Expected(workers []WorkerView, t Traffic) (time.Duration, bool) {
	c := cleanTraffic(&t)
	if c == nil {
		return 0, false
	}
	s := newMarket(c, workers).expected()
	return time.Duration(s * 1e9), !math.IsInf(s, 0)
}
