package proximity

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Addresses of users that services must be near: some workers, chosen at random, measure
// them. Where those are not all, the place of the address is found in the space of round
// trips, and the workers that should be nearest measure it too.

const (
	// aimBy is how many workers measure an address at first: enough to find its place.
	aimBy = coord.LeastSightings + 3
	// aimNearest more do, those that are nearest by what was found.
	aimNearest = 8
	// aimFresh is how long a measurement is not repeated, aimRetry how long one is not
	// that came to nothing; it doubles four times.
	aimFresh = 2 * time.Minute
	aimRetry = 10 * time.Second
	// maxAims are measured in a cluster.
	maxAims = 64
)

// aim is an address and what is known of it.
type aim struct {
	By  map[string]*shot // by worker
	pos *coord.Position  // where it was found; nil: not
}

// shot is what came of a worker's measurements.
type shot struct {
	at       time.Time // of the last, zero: none yet
	RTT      time.Duration
	failures int // in a row
	Why      string
}

// due is when the worker is to measure again.
func (s *shot) due() time.Time {
	switch {
	case s.at.IsZero():
		return s.at
	case s.failures > 0:
		return s.at.Add(aimRetry << min(s.failures-1, 4))
	}
	return s.at.Add(aimFresh)
}

// known is a round trip that is fresh.
func (s *shot) known(now time.Time) bool {
	return s != nil && s.RTT > 0 && now.Sub(s.at) <= coord.Fresh
}

// addresses are those that services name, each once, in order; at most maxAims.
func addresses(services []*wire.Share) []string {
	seen := map[string]bool{}
	for _, s := range services {
		for _, l := range s.Spec.Latency {
			if _, _, ok := l.Address(); ok {
				seen[l.To] = true
			}
		}
		for _, host := range s.Spec.DataHosts() {
			seen[host] = true
		}
	}
	all := slices.Sorted(maps.Keys(seen))
	return all[:min(len(all), maxAims)]
}

// aimAt decides who measures which address.
func aimAt(m *state.Model, services []*wire.Share, ready []string) {
	wanted := addresses(services)
	for to := range Memory(m).Near.Aims {
		if !slices.Contains(wanted, to) {
			delete(Memory(m).Near.Aims, to)
		}
	}
	for _, to := range wanted {
		a := Memory(m).Near.Aims[to]
		if a == nil {
			a = &aim{By: map[string]*shot{}}
			Memory(m).Near.Aims[to] = a
		}
		maps.DeleteFunc(a.By, func(name string, _ *shot) bool { return m.Workers[name] == nil })
		add := func(name string) {
			if a.By[name] == nil {
				a.By[name] = &shot{}
			}
		}
		if len(ready) <= aimBy+aimNearest {
			for _, name := range ready {
				add(name)
			}
			continue
		}
		// Where the chosen ones have gone others take their place.
		heard := 0
		for _, name := range ready {
			if s := a.By[name]; s != nil && s.failures < 3 {
				heard++
			}
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(to)) // a hash never fails
		rng := rand.New(rand.NewPCG(h.Sum64(), uint64(len(a.By))))
		for heard < aimBy && len(a.By) < 4*(aimBy+aimNearest) {
			add(ready[rng.IntN(len(ready))])
			heard++
		}
		if a.pos != nil {
			for _, name := range nearestTo(m, a.pos, ready) {
				add(name)
			}
		}
	}
}

// nearestTo are the workers that should be nearest to what was found.
func nearestTo(m *state.Model, p *coord.Position, ready []string) []string {
	at := wire.Coordinate(p.Point)
	type one struct {
		name string
		rtt  time.Duration
	}
	var best []one
	for _, name := range ready {
		c := m.Workers[name].Coord
		if c == nil {
			continue
		}
		x := one{name, c.RTT(&at)}
		i, _ := slices.BinarySearchFunc(best, x, func(a, b one) int { return int(min(max(a.rtt-b.rtt, -1), 1)) })
		if i < aimNearest {
			best = slices.Insert(best, i, x)
			best = best[:min(len(best), aimNearest)]
		}
	}
	var out []string
	for _, x := range best {
		out = append(out, x.name)
	}
	return out
}

// targetsFor are the addresses that a worker is to measure now, which count as asked
// for, and when the next one is due; zero: none.
func (n *Near) targetsFor(worker string, now time.Time) (list []string, next time.Time) {
	for _, to := range slices.Sorted(maps.Keys(n.Aims)) {
		s := n.Aims[to].By[worker]
		if s == nil {
			continue
		}
		if due := s.due(); due.After(now) || len(list) >= rpc.MaxMeasureTargets {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		list = append(list, to)
	}
	return list, next
}

// missed notes that a worker did not answer.
func (n *Near) missed(q Question, why string, now time.Time) {
	for _, to := range q.Ask.Targets {
		if a := n.Aims[to]; a != nil && a.By[q.Worker] != nil {
			s := a.By[q.Worker]
			s.at, s.failures, s.Why = now, s.failures+1, why
		}
	}
}

// hit takes what a worker measured.
func (n *Near) hit(q Question, r rpc.Measured, now time.Time) {
	for k, to := range q.Ask.Targets {
		a := n.Aims[to]
		if a == nil || a.By[q.Worker] == nil {
			continue
		}
		s := a.By[q.Worker]
		s.at = now
		rtt := r.Targets[k].RTT.Std()
		if rtt < coord.MinRTT || rtt > coord.MaxRTT {
			s.failures, s.Why = s.failures+1, briefly(r.Targets[k].Why)
			continue
		}
		s.RTT, s.failures, s.Why = rtt, 0, ""
		a.pos = nil // found anew when it is asked for
	}
}

// briefly bounds what a worker says about a failure.
func briefly(why string) string {
	const most = 200
	if len(why) > most {
		return why[:most] + " …"
	}
	if why == "" {
		return "no answer"
	}
	return why
}

// aimedEnough says why it is not known yet how far an address is, "" if it is: each of
// those who measure it has an answer, or none.
func aimedEnough(m *state.Model, to string) string {
	a := Memory(m).Near.Aims[to]
	if a == nil {
		return "nobody has measured " + to
	}
	missing := 0
	for _, s := range a.By {
		if s.at.IsZero() {
			missing++
		}
	}
	if missing > 0 || len(a.By) == 0 {
		return fmt.Sprintf("%d of %s have measured %s", len(a.By)-missing, wire.Count(len(a.By), "worker"), to)
	}
	return ""
}

// found is where an address is: what was measured, and, where that is not all workers,
// the place that follows from it; or why nothing is known.
func (n *Near) found(to string, m *state.Model, now time.Time) ([]place.Target, string) {
	a := n.Aims[to]
	if a == nil {
		return nil, "nobody has measured it"
	}
	t := place.Target{ID: to, Direct: map[string]api.Duration{}}
	var sightings []coord.Sighting
	example := ""
	for _, name := range slices.Sorted(maps.Keys(a.By)) {
		s, w := a.By[name], m.Workers[name]
		if !s.known(now) {
			if s.Why != "" && example == "" {
				example = name + ": " + s.Why
			}
			continue
		}
		t.Direct[name] = api.Duration(s.RTT)
		if w != nil && w.Coord != nil {
			sightings = append(sightings, coord.Sighting{From: coord.Point(*w.Coord), RTT: s.RTT})
		}
	}
	if len(t.Direct) == 0 {
		if example == "" {
			return nil, "nobody has measured it"
		}
		return nil, "no worker could measure it, for example " + example
	}
	if len(a.By) < len(m.Workers) {
		if a.pos == nil {
			if p, err := coord.Trilaterate(sightings, 1); err == nil {
				a.pos = &p
			}
		}
		if a.pos != nil {
			c := wire.Coordinate(a.pos.Point)
			t.Coord, t.Margin = &c, api.Duration(a.pos.Margin)
		}
	}
	return []place.Target{t}, ""
}
