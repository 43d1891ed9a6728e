package proximity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What must be near (latency of a descriptor): the cluster asks its workers how far they
// are from each other and from what services name, as long as a service names anything,
// and keeps what they say in memory. Without such a service it asks only the workers whose
// coordinates routers need (routes.InCrowds), seldom.

const (
	// decideWithin is how long an instance waits for measurements, and for what it must
	// be near to be placed, unless its service says otherwise (convergence_time).
	decideWithin = 10 * time.Second
	// allPairs is up to how many workers each of them measures each other; of more each
	// measures so many, and coordinates say the rest.
	allPairs = rpc.MaxMeasurePeers + 1
	// SurveyRounds is after how many answers coordinates are good enough to place by
	// where they are needed; surveySoon apart.
	SurveyRounds = coord.Rounds
	surveySoon   = time.Second
	// surveyEvery is the time between two questions to a worker later, or longer where
	// that would be more than surveyRate a second in all.
	surveyEvery = time.Minute
	surveyRate  = 50
	// placesEvery is that time where only the coordinates are needed, for routers.
	placesEvery = 30 * time.Minute
	// placesTogether is the least time between two changes of what routers know of places.
	placesTogether = 20 * time.Second
	// placeMoved is by how much of the mean round trip a coordinate must have moved to be told
	// to routers anew.
	placeMoved = 0.2
	// surveyAhead is of how much time the questions may be asked at once.
	surveyAhead = time.Second
	// surveyRetry is the pause after a question that was not answered.
	surveyRetry = 5 * time.Second
	// maxTargets of one threshold are looked at, the first by id.
	maxTargets = 64
)

// Near is what is known of distances. It is of this process, and used under the lock
// of the model's owner.
type Near struct {
	Workers map[string]*surveyed
	// pairs are round trips from workers by what they are to: the name of a worker, or
	// the cluster and name of another cluster's as farKey.
	Pairs map[string]map[string]paired
	// since is when an instance of a service was first seen to wait for this, by
	// application and service.
	Since map[string]time.Time
	// windows are the samples of instances' agreements; moved is when services were seen
	// to be moved for them last.
	Windows map[wire.InstanceID]*sampled
	Moved   map[string]time.Time
	// aims are the addresses that are measured, as services name them.
	Aims   map[string]*aim
	counts nearCounts
	// told is when routers were told of places last, ask until when questions for these are
	// spread that were asked.
	told, ask time.Time
}

// surveyed is what is known of asking a worker.
type surveyed struct {
	Asked    time.Time // zero: never
	Asking   bool
	Answers  int
	failures int // in a row
	why      string
	moved    bool // its coordinate is news to routers
}

// paired is a measured round trip.
type paired struct {
	rtt time.Duration
	at  time.Time
}

// NewNear returns what is known at first: nothing.
func NewNear() *Near {
	return &Near{Workers: map[string]*surveyed{}, Pairs: map[string]map[string]paired{},
		Since: map[string]time.Time{}, Aims: map[string]*aim{}, Windows: map[wire.InstanceID]*sampled{},
		Moved: map[string]time.Time{}}
}

// Clone shares no state with n.
func (n *Near) Clone() *Near {
	c := *n
	c.Since, c.Moved = maps.Clone(n.Since), maps.Clone(n.Moved)
	c.Windows, c.Workers = records.CloneEach(n.Windows), records.CloneEach(n.Workers)
	c.Pairs = make(map[string]map[string]paired, len(n.Pairs))
	for to, by := range n.Pairs {
		c.Pairs[to] = maps.Clone(by)
	}
	c.Aims = records.CloneEach(n.Aims)
	for _, a := range c.Aims {
		a.By = records.CloneEach(a.By)
	}
	return &c
}

// farKey names a worker of another cluster.
func farKey(cluster, worker string) string { return cluster + "/" + worker }

// nearServices are the shares that name something to be measured, in order.
func nearServices(m *state.Model) []*wire.Share {
	var out []*wire.Share
	for _, s := range m.Shares {
		if state.Scheduler(m, s) == place.NearestDemand || measures(s) || len(s.Spec.DataHosts()) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *wire.Share) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// AsksNear says whether a service names something that its instances are to be near, and
// of which its cluster finds out how far it is.
func AsksNear(s *api.Service) bool { return len(s.Latency) > 0 || len(s.DataHosts()) > 0 }

// Question is what a worker is to be asked.
type Question struct {
	Worker string
	Ask    rpc.MeasureAsk
	// samples are the instances there whose agreement it is about.
	Samples []wire.InstanceID
}

// Survey is whom to ask now and when to look again. All workers are asked where a service is to
// be near anything, and otherwise those in crowds, whose coordinates routers need; nobody and
// zero where there are none. Those it names count as asked.
func Survey(m *state.Model, crowds map[string]bool, now time.Time) (list []Question, next time.Time) {
	services := nearServices(m)
	for name := range Memory(m).Near.Workers {
		if m.Workers[name] == nil {
			delete(Memory(m).Near.Workers, name)
			delete(Memory(m).Near.Pairs, name)
		}
	}
	ready, every, spread := readyWorkers(m), surveyEvery, len(services) == 0
	if spread {
		ready = slices.DeleteFunc(ready, func(name string) bool { return !crowds[name] })
		if every = placesEvery; len(ready) == 0 {
			return nil, next
		}
	}
	first := NearTargets(m, services)
	aimAt(m, services, ready)
	every = max(every, time.Duration(len(ready))*time.Second/surveyRate)
	samples, next := samples(m, now, true)
	for n, name := range ready {
		s := Memory(m).Near.Workers[name]
		if s == nil {
			s = &surveyed{}
			Memory(m).Near.Workers[name] = s
		}
		if s.Asking {
			continue
		}
		due := s.due(every)
		targets, then := Memory(m).Near.targetsFor(name, now)
		if due.After(now) && len(targets)+len(samples[name]) == 0 {
			for _, at := range []time.Time{due, then} {
				if !at.IsZero() && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
			continue
		}
		if spread { // nobody waits for it
			near := Memory(m).Near
			if near.ask.After(now.Add(surveyAhead)) {
				next = near.ask.Add(-surveyAhead)
				break
			}
			if near.ask.Before(now) {
				near.ask = now
			}
			near.ask = near.ask.Add(time.Second / surveyRate)
		}
		q := Question{Worker: name, Ask: rpc.MeasureAsk{Targets: targets}}
		if s.Asking = true; !due.After(now) {
			s.Asked = now
			q.Ask.Peers = peersFor(m, name, n, ready, first, s.Answers)
		}
		sampling(m, &q, samples[name])
		list = append(list, q)
	}
	return list, next
}

// due is when a worker is to be asked next.
func (s *surveyed) due(every time.Duration) time.Time {
	switch {
	case s.Asked.IsZero():
		return s.Asked
	case s.failures > 0:
		return s.Asked.Add(surveyRetry << min(s.failures-1, 4))
	case s.Answers < 2*SurveyRounds:
		return s.Asked.Add(surveySoon)
	}
	return s.Asked.Add(every)
}

// readyWorkers are those that are heard, by name.
func readyWorkers(m *state.Model) []string {
	var out []string
	for name, w := range m.Workers {
		if !w.Suspect && w.EverHeard && w.Revoked.IsZero() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// NearTargets are the workers, of this cluster and of others, that have instances of
// services which others must be near.
func NearTargets(m *state.Model, services []*wire.Share) []rpc.MeasurePeer {
	seen := map[string]bool{}
	var out []rpc.MeasurePeer
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
					out = append(out, rpc.MeasurePeer{Cluster: m.Name, Worker: i.Worker, Address: w.Info.Address})
				}
			}
			if f := m.Far[s.App+"."+service]; f != nil {
				for _, e := range f.Endpoints {
					if e.Cluster != m.Name && !seen[farKey(e.Cluster, e.Worker)] {
						seen[farKey(e.Cluster, e.Worker)] = true
						out = append(out, rpc.MeasurePeer{Cluster: e.Cluster, Worker: e.Worker, Address: e.Address})
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b rpc.MeasurePeer) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Worker, b.Worker))
	})
	return out
}

// placed notes the coordinate that a worker has said beside its measurements.
func placed(s *surveyed, w *state.Worker, r rpc.Measured, now time.Time) {
	own := coord.Point(r.Own)
	if !own.Valid() || own.Error >= wire.UnknownError {
		return
	}
	w.Coord = &r.Own
	if s.Answers < SurveyRounds || w.Place != nil && now.Sub(w.Placed) < placesEvery {
		return
	}
	var sum time.Duration
	for _, p := range r.Peers {
		sum += p.RTT.Std()
	}
	before, ok := coord.FromShort(w.Place)
	s.moved = !ok || own.Moved(before) > placeMoved*sum.Seconds()/float64(max(1, len(r.Peers)))
}

// TellPlaces has routers told where the workers are that have moved, or are known for the first
// time: all of these together, since each change of a route is all of it anew. It reports whether
// there are any.
func TellPlaces(m *state.Model, now time.Time) (any bool) {
	n := Memory(m).Near
	if now.Sub(n.told) < placesTogether {
		return false
	}
	for name, s := range n.Workers {
		if w := m.Workers[name]; s.moved && w != nil && w.Coord != nil {
			w.Place, w.Placed, s.moved, any = coord.Point(*w.Coord).Short(), now, false, true
		}
	}
	if any {
		n.told = now
	}
	return any
}

// peersFor are whom the n-th of the workers that are ready is to measure: those that
// services must be near, half of what can be asked at most where there are many, and
// others, who are different ones each round.
func peersFor(m *state.Model, name string, n int, ready []string, first []rpc.MeasurePeer,
	round int) []rpc.MeasurePeer {
	most := rpc.MaxMeasurePeers
	var out []rpc.MeasurePeer
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
	for _, at := range coord.Round(n, len(ready), round, most-len(out)) {
		if other := ready[at]; !taken[other] {
			out = append(out, rpc.MeasurePeer{Cluster: m.Name, Worker: other, Address: m.Workers[other].Info.Address})
		}
	}
	return out
}

// LearnNear takes what a worker answered, or that it did not. It reports whether an
// agreement is violated by it.
func LearnNear(m *state.Model, q Question, r rpc.Measured, err error, now time.Time) (violated bool) {
	s, w := Memory(m).Near.Workers[q.Worker], m.Workers[q.Worker]
	if s == nil || w == nil {
		return false
	}
	s.Asking = false
	if err == nil && (len(r.Peers) != len(q.Ask.Peers) || len(r.Targets) != len(q.Ask.Targets)) {
		err = fmt.Errorf("it answered about %d of %d", len(r.Peers), len(q.Ask.Peers))
	}
	if err != nil {
		Memory(m).Near.counts.failed++
		s.failures, s.why = s.failures+1, err.Error()
		Memory(m).Near.missed(q, "it does not answer", now)
		return false
	}
	Memory(m).Near.hit(q, r, now)
	Memory(m).Near.counts.answered++
	if s.failures, s.why = 0, ""; len(q.Ask.Peers) > 0 || len(q.Ask.Targets) == 0 {
		s.Answers++
	}
	placed(s, w, r, now)
	for k, p := range q.Ask.Peers {
		if rtt := r.Peers[k].RTT.Std(); rtt >= coord.MinRTT && rtt <= coord.MaxRTT {
			to := p.Worker
			if p.Cluster != m.Name {
				to = farKey(p.Cluster, p.Worker)
			}
			Memory(m).Near.note(to, q.Worker, paired{rtt, now})
		}
	}
	return takeSamples(m, q, now)
}

// note remembers a round trip, and forgets those that are not fresh.
func (n *Near) note(to, from string, p paired) {
	if n.Pairs[to] == nil {
		n.Pairs[to] = map[string]paired{}
	}
	n.Pairs[to][from] = p
	maps.DeleteFunc(n.Pairs[to], func(_ string, old paired) bool { return p.at.Sub(old.at) > coord.Fresh })
}

// direct are the fresh round trips to something, by worker.
func (n *Near) direct(to string, now time.Time) map[string]api.Duration {
	var out map[string]api.Duration
	for from, p := range n.Pairs[to] {
		if now.Sub(p.at) <= coord.Fresh {
			if out == nil {
				out = map[string]api.Duration{}
			}
			out[from] = api.Duration(p.rtt)
		}
	}
	return out
}

// Outside counts the workers that have measured some of other clusters.
func (n *Near) Outside() int {
	from := map[string]bool{}
	for to, by := range n.Pairs {
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
func surveyedEnough(m *state.Model) string {
	need, ready := 1, readyWorkers(m)
	if len(ready) > allPairs {
		need = SurveyRounds
	}
	missing := 0
	for _, name := range ready {
		if s := Memory(m).Near.Workers[name]; s == nil || s.Answers < need && s.failures == 0 {
			missing++
		}
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s have measured their distances", len(ready)-missing, wire.Count(len(ready), "worker"))
}

// LookNear notes since when services wait, and when they were moved.
func LookNear(m *state.Model, now time.Time) {
	waits, any := map[string]bool{}, false
	for _, s := range m.Shares {
		any = any || AsksNear(s.Spec) || state.Scheduler(m, s) == place.NearestDemand
	}
	if !any { // what many have need not be looked at
		clear(Memory(m).Near.Since)
		return
	}
	lookMoves(m, now)
	for _, i := range m.Insts {
		key := i.App + "." + i.Service
		if s := m.Shares[key]; s != nil && AsksNear(s.Spec) &&
			(i.State == wire.ClusterScheduled || i.State == wire.Failed || i.State == wire.Requested) {
			waits[key] = true
			if Memory(m).Near.Since[key].IsZero() {
				Memory(m).Near.Since[key] = now
			}
		}
	}
	maps.DeleteFunc(Memory(m).Near.Since, func(key string, _ time.Time) bool { return !waits[key] })
}

// UntilDecided is the time until the first service has waited as long as it may, 0 where
// none waits.
func UntilDecided(m *state.Model, now time.Time) (least time.Duration) {
	for key, since := range Memory(m).Near.Since {
		if s := m.Shares[key]; s != nil {
			if d := DecideWithin(s) - now.Sub(since); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return least
}

// DecideWithin is how long the decision about a service may take.
func DecideWithin(s *wire.Share) time.Duration {
	if s.Spec.ConvergenceTime != nil {
		return s.Spec.ConvergenceTime.Std()
	}
	return decideWithin
}

// waited says whether a service has waited as long as its decision may take.
func waited(m *state.Model, s *wire.Share, now time.Time) bool {
	since := Memory(m).Near.Since[s.App+"."+s.Service]
	return !since.IsZero() && now.Sub(since) >= DecideWithin(s)
}

// NearWait is why an instance is not placed yet since it is not known what it would be
// near, "" where it can be decided.
func NearWait(t *state.Tx, s *wire.Share, now time.Time) string {
	if !AsksNear(s.Spec) || waited(t.Model, s, now) {
		return ""
	}
	measured := false
	for _, host := range s.Spec.DataHosts() {
		measured = true
		if why := aimedEnough(t.Model, host); why != "" {
			return "waits until it is known what is near: " + why
		}
	}
	for _, l := range s.Spec.Latency {
		service := l.Service()
		if service == "" {
			if _, isPlace := l.Place(); !isPlace {
				measured = true
				if why := aimedEnough(t.Model, l.To); why != "" {
					return "waits until it is known what is near: " + why
				}
			}
			continue
		}
		measured = measured || l.Max > 0
		if len(nearTargets(t, s.App, service, now)) == 0 && !breaksCycle(t, s, service) {
			return "waits for " + service + " to be placed, which it must be near"
		}
	}
	if measured {
		if why := surveyedEnough(t.Model); why != "" {
			return "waits until it is known what is near: " + why
		}
	}
	return ""
}

// breaksCycle: the service named waits for s in its turn, and s is the one of the two
// that does not wait: the first by name of all on the way.
func breaksCycle(t *state.Tx, s *wire.Share, service string) bool {
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
		next := t.Model.Shares[s.App+"."+at]
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
func nearTargets(t *state.Tx, app, service string, now time.Time) []place.Target {
	var out []place.Target
	seen := map[string]bool{}
	for _, i := range t.Instances() {
		w := t.Model.Workers[i.Worker]
		if i.App != app || i.Service != service || w == nil || w.Suspect || seen[i.Worker] || i.Draining ||
			i.State != wire.Running && i.State != wire.WorkerScheduled {
			continue
		}
		seen[i.Worker] = true
		out = append(out, place.Target{ID: i.ID, Worker: i.Worker, Coord: w.Coord, Location: w.Info.Location,
			Direct: Memory(t.Model).Near.direct(i.Worker, now)})
	}
	if f := t.Model.Far[app+"."+service]; f != nil {
		comparable := len(f.Where) > 0 && Memory(t.Model).Near.Outside() > 0
		for _, e := range f.Endpoints {
			if key := farKey(e.Cluster, e.Worker); e.Cluster != t.Model.Name && !seen[key] {
				seen[key] = true
				var where *wire.Where
				if w, told := f.Where[e.Cluster]; told {
					where = &w
				}
				target := place.Somewhere(e.Instance, key, where, comparable)
				target.Direct = Memory(t.Model).Near.direct(key, now)
				out = append(out, target)
			}
		}
	}
	return out[:min(len(out), maxTargets)]
}

// Thresholds are what an instance of a share must be near, with what is known of it.
func Thresholds(t *state.Tx, s *wire.Share, now time.Time) []place.Threshold {
	var out []place.Threshold
	for _, l := range s.Spec.Latency {
		th := place.Threshold{To: l.To, Max: l.Max, Distance: l.Distance}
		if p, ok := l.Place(); ok {
			th.Targets = []place.Target{{ID: l.To, Location: &p, Place: true}}
		} else if service := l.Service(); service != "" {
			if th.Targets = nearTargets(t, s.App, service, now); len(th.Targets) == 0 {
				th.Free = "no instance of " + service + " is placed"
			}
			if why := surveyedEnough(t.Model); why != "" {
				th.Unknown = why
			}
		} else {
			th.Targets, th.Unknown = Memory(t.Model).Near.found(l.To, t.Model, now)
		}
		out = append(out, th)
	}
	for _, host := range s.Spec.DataHosts() {
		th := place.Threshold{To: host, Wish: true}
		th.Targets, th.Unknown = Memory(t.Model).Near.found(host, t.Model, now)
		out = append(out, th)
	}
	return out
}

// SurveyAtOnce is how many workers are asked at a time; each answers within three
// seconds or not at all.
const SurveyAtOnce = 64

// nearCounts are what this process has counted of distances and agreements.
type nearCounts struct {
	answered, failed uint64 // questions to workers
	kept, violated   uint64 // samples of agreements
}

// NearSamples are figures of what must be near. The caller has the model.
func NearSamples(m *state.Model) []obs.Sample {
	unkept := 0
	for _, up := range m.Ups {
		if up.SLAViolation != "" {
			unkept++
		}
	}
	n := Memory(m).Near.counts
	by := func(name, help, result string, value uint64) obs.Sample {
		return obs.Sample{Name: name, Help: help, Counter: true, Labels: [][2]string{{"result", result}},
			Value: float64(value)}
	}
	const asked, sampled = "Questions to workers about distances, by what came of them.",
		"Samples of agreements about distances (latency), by whether they keep it."
	return []obs.Sample{
		by("verge_distance_questions_total", asked, "answered", n.answered),
		by("verge_distance_questions_total", asked, "failed", n.failed),
		by("verge_agreement_samples_total", sampled, "kept", n.kept),
		by("verge_agreement_samples_total", sampled, "violated", n.violated),
		{Name: "verge_agreements_unkept",
			Help:  "Instances that do not keep their agreement, and no other worker of the cluster is expected to.",
			Value: float64(unkept)},
	}
}

// Known is what this process knows beside what is stored.
type Known struct {
	Near *Near // distances
	// Flows are where the requests of services enter that are to be near them, by
	// application and service. Entering is what of it the root is told.
	Flows    map[string]*Flows
	Entering []wire.Entering
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Near: NewNear(), Flows: map[string]*Flows{}} },
	Clone: func(k *Known) *Known {
		c := &Known{Near: k.Near.Clone(), Flows: records.CloneEach(k.Flows), Entering: slices.Clone(k.Entering)}
		for _, f := range c.Flows {
			f.At, f.Replicas = maps.Clone(f.At), maps.Clone(f.Replicas)
		}
		return c
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
