package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// What must be near (latency of a descriptor): the cluster asks its workers how far they
// are from each other and from what services name, as long as a service names anything,
// and keeps what they say in memory. A worker measures nobody for this otherwise.

const (
	// decideWithin is how long an instance waits for measurements, and for what it must
	// be near to be placed, unless its service says otherwise (convergence_time).
	decideWithin = 10 * time.Second
	// allPairs is up to how many workers each of them measures each other; of more each
	// measures so many, and coordinates say the rest.
	allPairs = wire.MaxMeasurePeers + 1
	// surveyRounds is after how many answers coordinates are good enough to place by
	// where they are needed; surveySoon apart.
	surveyRounds = 4
	surveySoon   = time.Second
	// surveyEvery is the time between two questions to a worker later, or longer where
	// that would be more than surveyRate a second in all.
	surveyEvery = time.Minute
	surveyRate  = 50
	// surveyRetry is the pause after a question that was not answered.
	surveyRetry = 5 * time.Second
	// maxTargets of one threshold are looked at, the first by id.
	maxTargets = 64
)

// near is what is known of distances. It is of this process, and touched under the mutex
// of the model's owner.
type near struct {
	workers map[string]*surveyed
	// pairs are round trips from workers by what they are to: the name of a worker, or
	// the cluster and name of another cluster's as farKey.
	pairs map[string]map[string]paired
	// since is when an instance of a service was first seen to wait for this, by
	// application and service.
	since map[string]time.Time
	// windows are the samples of instances' agreements; moved is when services were seen
	// to be moved for them last.
	windows map[wire.InstanceID]*sampled
	moved   map[string]time.Time
	// aims are the addresses that are measured, as services name them.
	aims   map[string]*aim
	counts nearCounts
}

// surveyed is what is known of asking a worker.
type surveyed struct {
	asked    time.Time // zero: never
	asking   bool
	answers  int
	failures int // in a row
	why      string
}

// paired is a measured round trip.
type paired struct {
	rtt time.Duration
	at  time.Time
}

func newNear() *near {
	return &near{workers: map[string]*surveyed{}, pairs: map[string]map[string]paired{}, since: map[string]time.Time{}, aims: map[string]*aim{}, windows: map[wire.InstanceID]*sampled{}, moved: map[string]time.Time{}}
}

// clone shares no state with n.
func (n *near) clone() *near {
	c := *n
	c.since, c.moved = maps.Clone(n.since), maps.Clone(n.moved)
	c.windows, c.workers = records.CloneEach(n.windows), records.CloneEach(n.workers)
	c.pairs = make(map[string]map[string]paired, len(n.pairs))
	for to, by := range n.pairs {
		c.pairs[to] = maps.Clone(by)
	}
	c.aims = records.CloneEach(n.aims)
	for _, a := range c.aims {
		a.by = records.CloneEach(a.by)
	}
	return &c
}

// farKey names a worker of another cluster.
func farKey(cluster, worker string) string { return cluster + "/" + worker }

// nearServices are the shares that name something to be measured, in order.
func (m *model) nearServices() []*wire.Share {
	var out []*wire.Share
	for _, s := range m.Shares {
		if m.scheduler(s) == place.NearestDemand || measures(s) || len(s.Spec.DataHosts()) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *wire.Share) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// asksNear says whether a service names something that its instances are to be near, and
// of which its cluster finds out how far it is.
func asksNear(s *api.Service) bool { return len(s.Latency) > 0 || len(s.DataHosts()) > 0 }

// question is what a worker is to be asked.
type question struct {
	worker string
	ask    wire.MeasureAsk
	// samples are the instances there whose agreement it is about.
	samples []wire.InstanceID
}

// survey is whom to ask now and when to look again; nobody and zero where nothing is to
// be near anything. Those it names count as asked.
func (m *model) survey(now time.Time) (list []question, next time.Time) {
	services := m.nearServices()
	for name := range m.near.workers {
		if m.Workers[name] == nil {
			delete(m.near.workers, name)
			delete(m.near.pairs, name)
		}
	}
	if len(services) == 0 {
		return nil, next
	}
	ready := m.readyWorkers()
	first := m.nearTargets(services)
	m.aimAt(services, ready)
	every := max(surveyEvery, time.Duration(len(ready))*time.Second/surveyRate)
	samples, next := m.samples(now, true)
	for n, name := range ready {
		s := m.near.workers[name]
		if s == nil {
			s = &surveyed{}
			m.near.workers[name] = s
		}
		if s.asking {
			continue
		}
		due := s.due(every)
		targets, then := m.near.targetsFor(name, now)
		if due.After(now) && len(targets)+len(samples[name]) == 0 {
			for _, at := range []time.Time{due, then} {
				if !at.IsZero() && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
			continue
		}
		q := question{worker: name, ask: wire.MeasureAsk{Targets: targets}}
		if s.asking = true; !due.After(now) {
			s.asked = now
			q.ask.Peers = m.peersFor(name, n, ready, first, s.answers)
		}
		m.sampling(&q, samples[name])
		list = append(list, q)
	}
	return list, next
}

// due is when a worker is to be asked next.
func (s *surveyed) due(every time.Duration) time.Time {
	switch {
	case s.asked.IsZero():
		return s.asked
	case s.failures > 0:
		return s.asked.Add(surveyRetry << min(s.failures-1, 4))
	case s.answers < 2*surveyRounds:
		return s.asked.Add(surveySoon)
	}
	return s.asked.Add(every)
}

// readyWorkers are those that are heard, by name.
func (m *model) readyWorkers() []string {
	var out []string
	for name, w := range m.Workers {
		if !w.Suspect && w.EverHeard && w.Revoked.IsZero() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// nearTargets are the workers, of this cluster and of others, that have instances of
// services which others must be near.
func (m *model) nearTargets(services []*wire.Share) []wire.MeasurePeer {
	seen := map[string]bool{}
	var out []wire.MeasurePeer
	for _, s := range services {
		for _, l := range s.Spec.Latency {
			service := l.Service()
			if service == "" || seen[s.App+"."+service] {
				continue
			}
			seen[s.App+"."+service] = true
			for _, i := range m.Insts {
				if w := m.Workers[i.Worker]; i.App == s.App && i.Service == service && w != nil && !seen["/"+i.Worker] {
					seen["/"+i.Worker] = true
					out = append(out, wire.MeasurePeer{Cluster: m.Name, Worker: i.Worker, Address: w.Info.Address})
				}
			}
			if f := m.Far[s.App+"."+service]; f != nil {
				for _, e := range f.Endpoints {
					if e.Cluster != m.Name && !seen[farKey(e.Cluster, e.Worker)] {
						seen[farKey(e.Cluster, e.Worker)] = true
						out = append(out, wire.MeasurePeer{Cluster: e.Cluster, Worker: e.Worker, Address: e.Address})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b wire.MeasurePeer) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Worker, b.Worker))
	})
	return out
}

// peersFor are whom the n-th of the workers that are ready is to measure: those that
// services must be near, half of what can be asked at most where there are many, and
// others, who are different ones each round.
func (m *model) peersFor(name string, n int, ready []string, first []wire.MeasurePeer, round int) []wire.MeasurePeer {
	most := wire.MaxMeasurePeers
	var out []wire.MeasurePeer
	taken := map[string]bool{name: true}
	part := len(first)
	if len(ready) > allPairs {
		part = min(part, most/2)
	}
	for k := range min(part, most) {
		p := first[(k+round*part)%len(first)]
		if p.Cluster == m.Name && taken[p.Worker] {
			continue
		}
		if p.Cluster == m.Name {
			taken[p.Worker] = true
		}
		out = append(out, p)
	}
	// Steps that are coprime to each other reach different ones in each round.
	step := 1 + 2*round
	for k, at := 0, n; k < len(ready) && len(out) < most; k++ {
		at = (at + step) % len(ready)
		if other := ready[at]; !taken[other] {
			taken[other] = true
			out = append(out, wire.MeasurePeer{Cluster: m.Name, Worker: other, Address: m.Workers[other].Info.Address})
		}
	}
	return out
}

// learnNear takes what a worker answered, or that it did not. It reports whether an
// agreement is violated by it.
func (m *model) learnNear(q question, r wire.Measured, err error, now time.Time) (violated bool) {
	s, w := m.near.workers[q.worker], m.Workers[q.worker]
	if s == nil || w == nil {
		return false
	}
	s.asking = false
	if err == nil && (len(r.Peers) != len(q.ask.Peers) || len(r.Targets) != len(q.ask.Targets)) {
		err = fmt.Errorf("it answered about %d of %d", len(r.Peers), len(q.ask.Peers))
	}
	if err != nil {
		m.near.counts.failed++
		s.failures, s.why = s.failures+1, err.Error()
		m.near.missed(q, "it does not answer", now)
		return false
	}
	m.near.hit(q, r, now)
	m.near.counts.answered++
	if s.failures, s.why = 0, ""; len(q.ask.Peers) > 0 || len(q.ask.Targets) == 0 {
		s.answers++
	}
	if own := r.Own; own.Valid() && own.Error < wire.UnknownError {
		w.Coord = &own
	}
	for k, p := range q.ask.Peers {
		if rtt := r.Peers[k].RTT.Std(); rtt >= coord.MinRTT && rtt <= coord.MaxRTT {
			to := p.Worker
			if p.Cluster != m.Name {
				to = farKey(p.Cluster, p.Worker)
			}
			m.near.note(to, q.worker, paired{rtt, now})
		}
	}
	return m.takeSamples(q, now)
}

// note remembers a round trip, and forgets those that are not fresh.
func (n *near) note(to, from string, p paired) {
	if n.pairs[to] == nil {
		n.pairs[to] = map[string]paired{}
	}
	n.pairs[to][from] = p
	maps.DeleteFunc(n.pairs[to], func(_ string, old paired) bool { return p.at.Sub(old.at) > coord.Fresh })
}

// direct are the fresh round trips to something, by worker.
func (n *near) direct(to string, now time.Time) map[string]api.Duration {
	var out map[string]api.Duration
	for from, p := range n.pairs[to] {
		if now.Sub(p.at) <= coord.Fresh {
			if out == nil {
				out = map[string]api.Duration{}
			}
			out[from] = api.Duration(p.rtt)
		}
	}
	return out
}

// outside counts the workers that have measured some of other clusters.
func (n *near) outside() int {
	from := map[string]bool{}
	for to, by := range n.pairs {
		if strings.Contains(to, "/") {
			for name := range by {
				from[name] = true
			}
		}
	}
	return len(from)
}

// surveyedEnough says why not enough is known of distances yet, "" if it is: each worker
// has answered, or does not answer.
func (m *model) surveyedEnough() string {
	need, ready := 1, m.readyWorkers()
	if len(ready) > allPairs {
		need = surveyRounds
	}
	missing := 0
	for _, name := range ready {
		if s := m.near.workers[name]; s == nil || s.answers < need && s.failures == 0 {
			missing++
		}
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s have measured their distances", len(ready)-missing, wire.Count(len(ready), "worker"))
}

// lookNear notes since when services wait, and when they were moved.
func (m *model) lookNear(now time.Time) {
	waits, any := map[string]bool{}, false
	for _, s := range m.Shares {
		any = any || asksNear(s.Spec) || m.scheduler(s) == place.NearestDemand
	}
	if !any { // what many have need not be looked at
		clear(m.near.since)
		return
	}
	m.lookMoves(now)
	for _, i := range m.Insts {
		key := i.App + "." + i.Service
		if s := m.Shares[key]; s != nil && asksNear(s.Spec) && (i.State == wire.ClusterScheduled || i.State == wire.Failed || i.State == wire.Requested) {
			waits[key] = true
			if m.near.since[key].IsZero() {
				m.near.since[key] = now
			}
		}
	}
	maps.DeleteFunc(m.near.since, func(key string, _ time.Time) bool { return !waits[key] })
}

// untilDecided is the time until the first service has waited as long as it may, 0 where
// none waits.
func (m *model) untilDecided(now time.Time) (least time.Duration) {
	for key, since := range m.near.since {
		if s := m.Shares[key]; s != nil {
			if d := m.decideWithin(s) - now.Sub(since); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return least
}

// decideWithin is how long the decision about a service may take.
func (m *model) decideWithin(s *wire.Share) time.Duration {
	if s.Spec.ConvergenceTime != nil {
		return s.Spec.ConvergenceTime.Std()
	}
	return decideWithin
}

// waited says whether a service has waited as long as its decision may take.
func (m *model) waited(s *wire.Share, now time.Time) bool {
	since := m.near.since[s.App+"."+s.Service]
	return !since.IsZero() && now.Sub(since) >= m.decideWithin(s)
}

// nearWait is why an instance is not placed yet since it is not known what it would be
// near, "" where it can be decided.
func (t *tx) nearWait(s *wire.Share, now time.Time) string {
	if !asksNear(s.Spec) || t.m.waited(s, now) {
		return ""
	}
	measured := false
	for _, host := range s.Spec.DataHosts() {
		measured = true
		if why := t.m.aimedEnough(host); why != "" {
			return "waits until it is known what is near: " + why
		}
	}
	for _, l := range s.Spec.Latency {
		service := l.Service()
		if service == "" {
			if _, isPlace := l.Place(); !isPlace {
				measured = true
				if why := t.m.aimedEnough(l.To); why != "" {
					return "waits until it is known what is near: " + why
				}
			}
			continue
		}
		measured = measured || l.Max > 0
		if len(t.nearTargets(s.App, service, now)) == 0 && !t.breaksCycle(s, service) {
			return "waits for " + service + " to be placed, which it must be near"
		}
	}
	if measured {
		if why := t.m.surveyedEnough(); why != "" {
			return "waits until it is known what is near: " + why
		}
	}
	return ""
}

// breaksCycle: the service named waits for s in its turn, and s is the one of the two
// that does not wait: the first by name of all on the way.
func (t *tx) breaksCycle(s *wire.Share, service string) bool {
	seen := map[string]bool{}
	first, closed := s.Service, false
	var walk func(at string)
	walk = func(at string) {
		if at == s.Service {
			closed = true
			return
		}
		if seen[at] {
			return
		}
		seen[at] = true
		next := t.m.Shares[s.App+"."+at]
		if next == nil {
			return
		}
		for _, l := range next.Spec.Latency {
			if to := l.Service(); to != "" {
				walk(to)
			}
		}
	}
	walk(service)
	if !closed {
		return false
	}
	for name := range seen {
		first = min(first, name)
	}
	return first == s.Service
}

// nearTargets are where the instances of a service are, each worker once.
func (t *tx) nearTargets(app, service string, now time.Time) []place.Target {
	var out []place.Target
	seen := map[string]bool{}
	for _, i := range t.Instances() {
		w := t.m.Workers[i.Worker]
		if i.App != app || i.Service != service || w == nil || w.Suspect || seen[i.Worker] || i.Draining || i.State != wire.Running && i.State != wire.WorkerScheduled {
			continue
		}
		seen[i.Worker] = true
		out = append(out, place.Target{ID: i.ID, Worker: i.Worker, Coord: w.Coord, Location: w.Info.Location, Direct: t.m.near.direct(i.Worker, now)})
	}
	if f := t.m.Far[app+"."+service]; f != nil {
		comparable := len(f.Where) > 0 && t.m.near.outside() > 0
		for _, e := range f.Endpoints {
			if key := farKey(e.Cluster, e.Worker); e.Cluster != t.m.Name && !seen[key] {
				seen[key] = true
				var where *wire.Where
				if w, told := f.Where[e.Cluster]; told {
					where = &w
				}
				target := place.Somewhere(e.Instance, key, where, comparable)
				target.Direct = t.m.near.direct(key, now)
				out = append(out, target)
			}
		}
	}
	return out[:min(len(out), maxTargets)]
}

// thresholds are what an instance of a share must be near, with what is known of it.
func (t *tx) thresholds(s *wire.Share, now time.Time) []place.Threshold {
	var out []place.Threshold
	for _, l := range s.Spec.Latency {
		th := place.Threshold{To: l.To, Max: l.Max, Distance: l.Distance}
		if p, ok := l.Place(); ok {
			th.Targets = []place.Target{{ID: l.To, Location: &p, Place: true}}
		} else if service := l.Service(); service != "" {
			if th.Targets = t.nearTargets(s.App, service, now); len(th.Targets) == 0 {
				th.Free = "no instance of " + service + " is placed"
			}
			if why := t.m.surveyedEnough(); why != "" {
				th.Unknown = why
			}
		} else {
			th.Targets, th.Unknown = t.m.near.found(l.To, t.m, now)
		}
		out = append(out, th)
	}
	for _, host := range s.Spec.DataHosts() {
		th := place.Threshold{To: host, Wish: true}
		th.Targets, th.Unknown = t.m.near.found(host, t.m, now)
		out = append(out, th)
	}
	return out
}
