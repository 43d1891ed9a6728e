package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// What an instance must be near is measured for as long as it runs, by its own worker.
// Where more samples are too far than its rigidness allows, it moves to a worker that is
// near enough, as off a worker that is drained: the next one is started first.

// sampleEvery is the time between two samples of an instance, or longer where that would
// be more questions than surveyRate a second in all.
const sampleEvery = 5 * time.Second

// sampled is the window of an instance.
type sampled struct {
	incarnation int
	targets     string // where what it must be near is: of other places old samples say nothing
	at          time.Time
	window      sla.Window
}

// rigidness of a service.
func rigidness(s *wire.Share) float64 {
	if s.Spec.Rigidness != nil {
		return *s.Spec.Rigidness
	}
	return sla.Default
}

// measures says whether somebody has to measure what a service must be near. All else
// follows from where workers and places are.
func measures(s *wire.Share) bool {
	return slices.ContainsFunc(s.Spec.Latency, func(l api.Latency) bool { _, isPlace := l.Place(); return !isPlace && l.Max > 0 })
}

// judgeUnmeasured takes the samples that nobody has to be asked for, as far as they are
// due. It reports whether an agreement is violated, and when the next sample is due; zero:
// none is.
func (m *model) judgeUnmeasured(now time.Time) (violated bool, next time.Time) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.Shares)), func(s *wire.Share) bool { return len(s.Spec.Latency) > 0 }) {
		clear(m.near.windows) // what many have need not be looked at
		return false, next
	}
	due, next := m.samples(now, false)
	for _, worker := range slices.Sorted(maps.Keys(due)) {
		q := question{worker: worker}
		for _, i := range due[worker] {
			q.samples = append(q.samples, i.ID)
		}
		violated = m.takeSamples(q, now) || violated
	}
	return violated, next
}

// samples are the instances whose agreement is to be judged now, by worker, and when the
// next one is due; zero: none is. They are of services that have something measured, or
// of the others.
func (m *model) samples(now time.Time, measured bool) (due map[string][]*wire.Instance, next time.Time) {
	var all []*wire.Instance
	seen := map[wire.InstanceID]bool{}
	for _, i := range m.Insts {
		if s := m.Shares[i.App+"."+i.Service]; s != nil && len(s.Spec.Latency) > 0 && rigidness(s) > 0 && i.State == wire.Running && i.Ready && !i.Draining {
			if seen[i.ID] = true; measures(s) == measured {
				all = append(all, i)
			}
		}
	}
	every := max(sampleEvery, time.Duration(len(all))*time.Second/surveyRate)
	due = map[string][]*wire.Instance{}
	for _, i := range all {
		w := m.near.windows[i.ID]
		if w == nil || w.incarnation != i.Incarnation {
			w = &sampled{incarnation: i.Incarnation, at: now}
			m.near.windows[i.ID] = w
		}
		if at := w.at.Add(every); at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		w.at = now
		due[i.Worker] = append(due[i.Worker], i)
	}
	maps.DeleteFunc(m.near.windows, func(id wire.InstanceID, _ *sampled) bool { return !seen[id] })
	for _, list := range due {
		slices.SortFunc(list, func(a, b *wire.Instance) int { return cmp.Compare(a.ID, b.ID) })
	}
	return due, next
}

// sampling adds to a question what the agreements of instances on that worker need.
func (m *model) sampling(q *question, list []*wire.Instance) {
	for _, i := range list {
		s := m.Shares[i.App+"."+i.Service]
		for _, l := range s.Spec.Latency {
			if _, _, ok := l.Address(); ok && len(q.ask.Targets) < wire.MaxMeasureTargets && !slices.Contains(q.ask.Targets, l.To) {
				if a := m.near.aims[l.To]; a != nil {
					if a.by[q.worker] == nil {
						a.by[q.worker] = &shot{}
					}
					q.ask.Targets = append(q.ask.Targets, l.To)
				}
			}
			if l.Service() == "" || l.Max == 0 {
				continue
			}
			one := *s.Spec
			one.Latency = []api.Latency{l}
			for _, p := range m.nearTargets([]*wire.Share{{App: s.App, Spec: &one}}) {
				same := func(o wire.MeasurePeer) bool { return o.Cluster == p.Cluster && o.Worker == p.Worker }
				if p.Cluster == m.Name && p.Worker == q.worker || slices.ContainsFunc(q.ask.Peers, same) {
					continue
				}
				if len(q.ask.Peers) >= wire.MaxMeasurePeers { // these matter more than strangers
					q.ask.Peers = q.ask.Peers[:wire.MaxMeasurePeers-1]
				}
				q.ask.Peers = append([]wire.MeasurePeer{p}, q.ask.Peers...)
			}
		}
		q.samples = append(q.samples, i.ID)
	}
}

// takeSamples judges agreements by what a worker has just measured, and reports whether
// one is violated.
func (m *model) takeSamples(q question, now time.Time) (violated bool) {
	t := m.begin()
	t.Now = now
	for _, id := range q.samples {
		i, w := m.Insts[id], m.near.windows[id]
		if i == nil || w == nil || i.Worker != q.worker || w.incarnation != i.Incarnation {
			continue
		}
		s := m.Shares[i.App+"."+i.Service]
		if s == nil || m.Workers[i.Worker] == nil {
			continue
		}
		view := view(m.Workers[i.Worker], i.Worker)
		any, kept := false, true
		var where []string
		for _, th := range t.thresholds(s, now) {
			if th.Wish {
				continue // it is looked at where an instance is placed
			}
			for _, target := range th.Targets {
				where = append(where, target.ID+"@"+target.Worker)
			}
			rtt, km, ok := place.Keeps(view, th)
			if th.Free != "" || !m.justMeasured(i.Worker, th, now) || rtt < 0 && th.Max > 0 || km < 0 && th.Distance > 0 {
				continue // nothing is known of it now
			}
			if !ok && place.MayKeep(view, th) {
				continue // it is somewhere in another cluster, and may be near enough
			}
			any, kept = true, kept && ok
		}
		if !any {
			continue
		}
		switch targets := strings.Join(where, " "); {
		case w.targets == "": // the first sample of this process
			w.targets = targets
		case targets != w.targets:
			w.targets, w.window = targets, sla.Window{}
		}
		w.window = w.window.Add(!kept)
		if kept {
			m.near.counts.kept++
		} else {
			m.near.counts.violated++
		}
		violated = violated || !kept
	}
	return violated
}

// justMeasured says whether a worker has measured one of the targets of a threshold at
// that moment, or need not.
func (m *model) justMeasured(worker string, th place.Threshold, now time.Time) bool {
	if th.Max == 0 {
		return true
	}
	for _, target := range th.Targets {
		to := target.Worker
		if target.Place || to == worker && to != "" {
			return true
		}
		if to == "" {
			to = target.Far
		}
		if p, ok := m.near.pairs[to][worker]; ok && p.at.Equal(now) {
			return true
		}
		if a := m.near.aims[target.ID]; a != nil && a.by[worker] != nil && a.by[worker].failures == 0 && a.by[worker].at.Equal(now) {
			return true
		}
	}
	return false
}

// lookMoves notes when services are moved for their agreement.
func (m *model) lookMoves(now time.Time) {
	for _, i := range m.Insts {
		if i.Moving != nil && i.Moving.For != "" && !i.Moving.Room && i.Moving.Failed == "" {
			m.near.moved[i.App+"."+i.Service] = now
		}
	}
	maps.DeleteFunc(m.near.moved, func(_ string, at time.Time) bool { return now.Sub(at) > sla.Rest })
}

// roomFor begins why an instance is to be moved that makes room for another.
const roomFor = "makes room for "

// recallMoves takes from what was read from the store when services were moved for their
// agreement last, so that a restart of this process does not move them sooner, and which
// agreements the root was told are broken, so that a move to another cluster goes on.
func (m *model) recallMoves(now time.Time) {
	for _, i := range m.Insts {
		if up, s := m.Ups[i.ID], m.Shares[i.App+"."+i.Service]; up != nil && up.SLAViolation == unkept && s != nil && len(s.Spec.Latency) > 0 && rigidness(s) > 0 {
			m.near.windows[i.ID] = &sampled{incarnation: i.Incarnation, at: now, window: sla.Least(rigidness(s))}
		}
		for _, h := range i.History {
			if age := now.Sub(h.At); h.Because() == wire.CauseMoved && age >= 0 && age <= sla.Rest && h.At.After(m.near.moved[i.App+"."+i.Service]) {
				m.near.moved[i.App+"."+i.Service] = h.At
			}
		}
	}
}

// unkept is what the root is told of an instance that no worker here is expected to keep
// the agreement of. It has no numbers: each would be a report.
const unkept = "more samples violate its agreement than its rigidness allows, and no other worker there is expected to keep it"

// agreements finds the instances that are to move since they are too far from what they
// must be near: of an application one at a time, since where one goes says whether
// another must.
func (t *tx) agreements(now time.Time) {
	t.broken, t.unkept = map[wire.InstanceID]string{}, map[wire.InstanceID]string{}
	if len(t.m.near.windows) == 0 {
		return
	}
	busy := map[string]bool{}
	for _, i := range t.Instances() {
		if underWay(i) && i.Moving.For != "" {
			busy[i.App] = true
		}
	}
	for _, key := range records.SortedKeys(t.m.Shares) {
		s := t.m.Shares[key]
		if len(s.Spec.Latency) == 0 || busy[s.App] {
			continue
		}
		for _, o := range ordinals(s) {
			i := t.Inst(instanceID(s.App, s.Service, o))
			if i == nil || i.State != wire.Running || !i.Ready || i.Draining || i.Leaving != nil || underWay(i) || i.Pinned != "" {
				continue
			}
			w := t.m.near.windows[i.ID]
			if w == nil || w.incarnation != i.Incarnation {
				continue
			}
			why := sla.Decide(w.window, rigidness(s), t.m.near.moved[key], now)
			if why == "" {
				continue
			}
			if t.schedule(i, s, appendOnce(slices.Clone(t.avoided(i, s)), i.Worker)).Chosen == "" {
				t.unkept[i.ID] = unkept // it stays until another cluster has it
				continue
			}
			t.broken[i.ID], busy[s.App] = why, true
			break
		}
	}
}

// lostDevice is what the root is told of an instance that has a device which is not there
// any more.
const lostDevice = "a device that it has is gone, and no other worker there can give it one"

// lost finds the instances that have a device which their worker does not offer any more:
// they are to move to one that has what they need, here or in another cluster.
func (t *tx) lost() {
	for _, key := range records.SortedKeys(t.m.Shares) {
		s := t.m.Shares[key]
		if !place.AsksDevices(s.Spec) {
			continue
		}
		for _, n := range ordinals(s) {
			i := t.Inst(instanceID(s.App, s.Service, n))
			if i == nil || i.State != wire.Running || i.Draining || i.Leaving != nil || underWay(i) || t.broken[i.ID] != "" {
				continue
			}
			w, told := t.m.Workers[i.Worker], t.m.Ups[i.ID]
			switch device := t.lostDevice(i); {
			case device == "" && w != nil && !w.EverHeard && told != nil && told.SLAViolation == lostDevice:
				t.unkept[i.ID] = lostDevice // until this process has heard of the worker
			case device == "":
			case i.Pinned != "" || t.schedule(i, s, appendOnce(slices.Clone(t.avoided(i, s)), i.Worker)).Chosen == "":
				t.unkept[i.ID] = lostDevice
			default:
				t.broken[i.ID] = "its device " + device + " is gone from worker " + i.Worker
			}
		}
	}
}

// lostDevice is a device that an instance has and its worker does not offer any more; ""
// for none, and where nothing is heard of the worker.
func (t *tx) lostDevice(i *wire.Instance) string {
	w, o := t.m.Workers[i.Worker], t.m.Orders[i.Worker+"."+i.ID]
	if w == nil || w.Suspect || !w.EverHeard || o == nil || o.Incarnation != i.Incarnation {
		return ""
	}
	for _, h := range o.Devices {
		if !slices.ContainsFunc(w.Info.Devices, func(d wire.Device) bool { return d.ID == h.ID }) {
			return h.ID
		}
	}
	return ""
}
