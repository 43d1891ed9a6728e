package proximity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What an instance must be near is measured for as long as it runs, by its own worker.
// Where more samples are too far than its rigidness allows, it moves to a worker that is
// near enough, as off a worker that is drained: the next one is started first.

// SampleEvery is the time between two samples of an instance, or longer where that would
// be more questions than surveyRate a second in all.
const SampleEvery = 5 * time.Second

// sampled is the window of an instance.
type sampled struct {
	Incarnation int
	targets     string // where what it must be near is: of other places old samples say nothing
	at          time.Time
	Window      sla.Window
}

// Rigidness of a service.
func Rigidness(s *wire.Share) float64 {
	if s.Spec.Rigidness != nil {
		return *s.Spec.Rigidness
	}
	return sla.Default
}

// measures says whether somebody has to measure what a service must be near. All else
// follows from where workers and places are.
func measures(s *wire.Share) bool {
	return slices.ContainsFunc(s.Spec.Latency,
		func(l api.Latency) bool { _, isPlace := l.Place(); return !isPlace && l.Max > 0 })
}

// JudgeUnmeasured takes the samples that nobody has to be asked for, as far as they are
// due. It reports whether an agreement is violated, and when the next sample is due; zero:
// none is.
func JudgeUnmeasured(m *state.Model, now time.Time) (violated bool, next time.Time) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.Shares)),
		func(s *wire.Share) bool { return len(s.Spec.Latency) > 0 }) {
		clear(Memory(m).Near.Windows) // what many have need not be looked at
		return false, next
	}
	due, next := samples(m, now, false)
	for _, worker := range slices.Sorted(maps.Keys(due)) {
		q := Question{Worker: worker}
		for _, i := range due[worker] {
			q.Samples = append(q.Samples, i.ID)
		}
		violated = takeSamples(m, q, now) || violated
	}
	return violated, next
}

// samples are the instances whose agreement is to be judged now, by worker, and when the
// next one is due; zero: none is. They are of services that have something measured, or
// of the others.
func samples(m *state.Model, now time.Time, measured bool) (due map[string][]*wire.Instance, next time.Time) {
	var all []*wire.Instance
	seen := map[wire.InstanceID]bool{}
	for _, i := range m.Insts {
		if s := m.Shares[i.App+"."+i.Service]; s != nil && len(s.Spec.Latency) > 0 && Rigidness(s) > 0 &&
			i.State == wire.Running && i.Ready && !i.Draining {
			if seen[i.ID] = true; measures(s) == measured {
				all = append(all, i)
			}
		}
	}
	every := max(SampleEvery, time.Duration(len(all))*time.Second/surveyRate)
	due = map[string][]*wire.Instance{}
	for _, i := range all {
		w := Memory(m).Near.Windows[i.ID]
		if w == nil || w.Incarnation != i.Incarnation {
			w = &sampled{Incarnation: i.Incarnation, at: now}
			Memory(m).Near.Windows[i.ID] = w
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
	maps.DeleteFunc(Memory(m).Near.Windows, func(id wire.InstanceID, _ *sampled) bool { return !seen[id] })
	for _, list := range due {
		slices.SortFunc(list, func(a, b *wire.Instance) int { return cmp.Compare(a.ID, b.ID) })
	}
	return due, next
}

// sampling adds to a question what the agreements of instances on that worker need.
func sampling(m *state.Model, q *Question, list []*wire.Instance) {
	for _, i := range list {
		s := m.Shares[i.App+"."+i.Service]
		for _, l := range s.Spec.Latency {
			if _, _, ok := l.Address(); ok && len(q.Ask.Targets) < rpc.MaxMeasureTargets &&
				!slices.Contains(q.Ask.Targets, l.To) {
				if a := Memory(m).Near.Aims[l.To]; a != nil {
					if a.By[q.Worker] == nil {
						a.By[q.Worker] = &shot{}
					}
					q.Ask.Targets = append(q.Ask.Targets, l.To)
				}
			}
			if l.Service() == "" || l.Max == 0 {
				continue
			}
			one := *s.Spec
			one.Latency = []api.Latency{l}
			for _, p := range NearTargets(m, []*wire.Share{{App: s.App, Spec: &one}}) {
				same := func(o rpc.MeasurePeer) bool { return o.Cluster == p.Cluster && o.Worker == p.Worker }
				if p.Cluster == m.Name && p.Worker == q.Worker || slices.ContainsFunc(q.Ask.Peers, same) {
					continue
				}
				if len(q.Ask.Peers) >= rpc.MaxMeasurePeers { // these matter more than strangers
					q.Ask.Peers = q.Ask.Peers[:rpc.MaxMeasurePeers-1]
				}
				q.Ask.Peers = append([]rpc.MeasurePeer{p}, q.Ask.Peers...)
			}
		}
		q.Samples = append(q.Samples, i.ID)
	}
}

// takeSamples judges agreements by what a worker has just measured, and reports whether
// one is violated.
func takeSamples(m *state.Model, q Question, now time.Time) (violated bool) {
	t := m.Begin()
	t.Now = now
	for _, id := range q.Samples {
		i, w := m.Insts[id], Memory(m).Near.Windows[id]
		if i == nil || w == nil || i.Worker != q.Worker || w.Incarnation != i.Incarnation {
			continue
		}
		s := m.Shares[i.App+"."+i.Service]
		if s == nil || m.Workers[i.Worker] == nil {
			continue
		}
		view := fleet.View(m.Workers[i.Worker], i.Worker)
		any, kept := false, true
		var where []string
		for _, th := range Thresholds(t, s, now) {
			if th.Wish {
				continue // it is looked at where an instance is placed
			}
			for _, target := range th.Targets {
				where = append(where, target.ID+"@"+target.Worker)
			}
			rtt, km, ok := place.Keeps(view, th)
			if th.Free != "" || !justMeasured(m, i.Worker, th, now) || rtt < 0 && th.Max > 0 || km < 0 &&
				th.Distance > 0 {
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
			w.targets, w.Window = targets, sla.Window{}
		}
		w.Window = w.Window.Add(!kept)
		if kept {
			Memory(m).Near.counts.kept++
		} else {
			Memory(m).Near.counts.violated++
		}
		violated = violated || !kept
	}
	return violated
}

// justMeasured says whether a worker has measured one of the targets of a threshold at
// that moment, or need not.
func justMeasured(m *state.Model, worker string, th place.Threshold, now time.Time) bool {
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
		if p, ok := Memory(m).Near.Pairs[to][worker]; ok && p.at.Equal(now) {
			return true
		}
		if a := Memory(m).Near.Aims[target.ID]; a != nil && a.By[worker] != nil && a.By[worker].failures == 0 &&
			a.By[worker].at.Equal(now) {
			return true
		}
	}
	return false
}

// lookMoves notes when services are moved for their agreement.
func lookMoves(m *state.Model, now time.Time) {
	for _, i := range m.Insts {
		if i.Moving != nil && i.Moving.For != "" && !i.Moving.Room && i.Moving.Failed == "" {
			Memory(m).Near.Moved[i.App+"."+i.Service] = now
		}
	}
	maps.DeleteFunc(Memory(m).Near.Moved, func(_ string, at time.Time) bool { return now.Sub(at) > sla.Rest })
}

// RoomFor begins why an instance is to be moved that makes room for another.
const RoomFor = "makes room for "

// RecallMoves takes from what was read from the store when services were moved for their
// agreement last, so that a restart of this process does not move them sooner, and which
// agreements the root was told are broken, so that a move to another cluster goes on.
func RecallMoves(m *state.Model, now time.Time) {
	for _, i := range m.Insts {
		if up, s := m.Ups[i.ID], m.Shares[i.App+"."+i.Service]; up != nil && up.SLAViolation == SLAViolation &&
			s != nil && len(s.Spec.Latency) > 0 && Rigidness(s) > 0 {
			Memory(m).Near.Windows[i.ID] = &sampled{Incarnation: i.Incarnation, at: now,
				Window: sla.Least(Rigidness(s))}
		}
		for _, h := range i.History {
			if age := now.Sub(h.At); h.Because() == wire.CauseMoved && age >= 0 && age <= sla.Rest &&
				h.At.After(Memory(m).Near.Moved[i.App+"."+i.Service]) {
				Memory(m).Near.Moved[i.App+"."+i.Service] = h.At
			}
		}
	}
}

// SLAViolation is what the root is told of an instance that no worker here is expected to keep
// the agreement of. It has no numbers: each would be a report.
const SLAViolation = "more samples violate its agreement than its rigidness allows, and no other worker there is expected to keep it"

// LostDevice is what the root is told of an instance that has a device which is not there
// any more.
const LostDevice = "a device that it has is gone, and no other worker there can give it one"
