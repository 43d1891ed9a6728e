package coord

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Times and bounds of measuring.
const (
	// AtOnce is how many are measured together: in a round of a survey, or by a worker that
	// has no place yet.
	AtOnce = 32
	// PerService is how many of a service's workers are measured again and again.
	PerService = 10
	// Moving is the time between two measurements while the own place moves.
	Moving = time.Second
	// StableMin to StableMax is that time once the place is at rest.
	StableMin = 10 * time.Second
	StableMax = 30 * time.Second // see StableMin

	// Rounds of a survey, a second apart, after which places are good enough to choose by.
	Rounds = 4

	drifting = 0.06 // of State.Drift, above which the place moves
	backOff  = 6    // doublings of the pause after failures, at most
)

// Round returns whom the worker at index self, of n in the order of their names, measures in
// a round of a survey: up to most indexes of others. Each round has others than the rounds
// before, until all were measured; then it begins again.
func Round(self, n, round, most int) []int {
	if n < 2 {
		return nil
	}
	// Steps of a length without a common divisor with n reach all others. Workers take
	// different steps, so that two that measure the same one do not share all.
	rng := rand.New(rand.NewPCG(uint64(self), 3))
	step := 1 + rng.IntN(n-1)
	for divisor(step, n) > 1 {
		step = 1 + step%(n-1)
	}
	out := make([]int, min(most, n-1))
	for k := range out {
		at := 1 + (round*most+k)%(n-1)
		out[k] = (self + at*step) % n
	}
	return out
}

// divisor is the greatest common one.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Settled says whether the own place has come to rest.
func (t *Table) Settled() bool { return t.Own.Drift <= drifting }

// Pause is the time until the next measurement where so many are wanted: a second
// while the own place moves, later long enough that all of them stay fresh.
func (t *Table) Pause(wanted int, seed uint64) time.Duration {
	if !t.Settled() {
		return Moving
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	calm := StableMin + time.Duration(rng.Int64N(int64(StableMax-StableMin)))
	return max(Moving, min(calm, Fresh/2/time.Duration(max(wanted, 1))))
}

// Due returns which workers to measure next, and when; services are the workers of each service in
// use, last is when the last measurement began. Workers without a measurement come first, up to
// AtOnce together, and again after Moving: the first measurements run side by side with their
// handshakes and delay each other. Later one worker is measured at a time. The list is empty if no
// service is in use. Pass another seed each time.
func (t *Table) Due(services [][]string, last time.Time, seed uint64, now time.Time) ([]string, time.Time) {
	var wanted []string
	for _, workers := range services {
		wanted = append(wanted, t.Choose(workers, seed, now)...)
	}
	if len(wanted) == 0 {
		return nil, now
	}
	wanted = sorted(wanted)
	var strangers, again []string
	for _, name := range wanted {
		switch p := t.Peers[name]; {
		case p == nil || p.Tried.IsZero():
			strangers = append(strangers, name)
		case len(p.Last) == 1 && p.Failures == 0:
			again = append(again, name)
		}
	}
	for _, some := range [][]string{strangers, again} {
		if len(some) > 0 {
			return some[:min(len(some), AtOnce)], last.Add(Moving)
		}
	}
	name, at, _ := t.Next(wanted, now)
	if calm := last.Add(t.Pause(len(wanted), seed)); calm.After(at) {
		at = calm
	}
	return []string{name}, at
}

// Choose returns the workers of one service to measure: all of at most PerService; of more, the
// nearest by what is known, and for the last quarter workers of unknown distance, while there are
// any. A worker without a place measures AtOnce of them to find it.
func (t *Table) Choose(workers []string, seed uint64, now time.Time) []string {
	list := sorted(workers)
	if len(list) <= PerService {
		return list
	}
	var strangers []string
	tried := false
	for _, name := range list {
		if !t.Distance(name, now).Known {
			strangers = append(strangers, name)
		}
		p := t.Peers[name]
		tried = tried || p != nil && !p.Tried.IsZero()
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	rng.Shuffle(len(strangers), func(i, j int) { strangers[i], strangers[j] = strangers[j], strangers[i] })
	most := PerService
	if t.Own.Point.Error >= worstError && !tried {
		most = AtOnce
	}
	near := t.nearest(list, most, now)
	room := max(most-len(near), min(most/4, len(strangers)))
	return append(near[:min(len(near), most-room)], strangers[:min(room, len(strangers))]...)
}

// nearest are up to n of those whose distance is known, the nearest first.
func (t *Table) nearest(list []string, n int, now time.Time) []string {
	type known struct {
		name string
		rtt  time.Duration
	}
	var all []known
	for _, name := range list {
		if d := t.Distance(name, now); d.Known {
			all = append(all, known{name, d.RTT})
		}
	}
	slices.SortFunc(all, func(a, b known) int { return cmp.Or(cmp.Compare(a.rtt, b.rtt), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, k := range all[:min(n, len(all))] {
		out = append(out, k.name)
	}
	return out
}

// Next returns which of the wanted workers to measure next, and when: the one measured longest ago,
// at most every StableMin, or every Moving until there are as many samples as a distance is the
// least of, since the first ones are disturbed by the start. Each failure doubles the pause. ok is
// false if no worker is wanted.
func (t *Table) Next(wanted []string, now time.Time) (name string, at time.Time, ok bool) {
	for _, n := range sorted(wanted) {
		var due time.Time // never tried: before all others
		if p := t.Peers[n]; p != nil && !p.Tried.IsZero() {
			due = p.Tried.Add(StableMin << p.Failures)
			if p.Failures == 0 && len(p.Last) < samples {
				due = p.Tried.Add(Moving)
			}
		}
		if !ok || due.Before(at) {
			name, at, ok = n, due, true
		}
	}
	if ok && at.Before(now) {
		at = now
	}
	return name, at, ok
}

// sorted has each name once.
func sorted(list []string) []string {
	all := slices.Sorted(slices.Values(list))
	return slices.Compact(all)
}
