package coord

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Times and bounds of measuring.
const (
	// Fresh is how long a measured distance counts before the estimate.
	Fresh = 5 * time.Minute
	// AtOnce is how many are measured together: at a join, or when a service is first
	// used.
	AtOnce = 32
	// PerService is how many of a service's workers are measured again and again.
	PerService = 12
	// Moving is the time between two measurements while the own place moves.
	Moving = time.Second
	// StableMin to StableMax is that time once the place is at rest.
	StableMin = 10 * time.Second
	StableMax = 30 * time.Second // see StableMin
	// MaxPeers are remembered; beyond them the one not heard of for longest is
	// forgotten.
	MaxPeers = 4096

	samples   = 5    // of which a direct distance is the least
	drifting  = 0.06 // of State.Drift, above which the place moves
	firstNear = 4    // of AtOnce at a join
	backOff   = 6    // doublings of the pause after failures, at most
)

// Peer is what is known of another worker.
type Peer struct {
	// Point that it said last; PointAt is zero if it never did.
	Point   Point     `json:"point"`
	PointAt time.Time `json:"point_at,omitzero"`
	// Last round trips, the newest last.
	Last []Sample `json:"last,omitempty"`
	// Tried is when a measurement ended last, Failures how many in a row came to
	// nothing.
	Tried    time.Time `json:"-"`
	Failures int       `json:"-"`
	// Why the last one came to nothing.
	Why string `json:"-"`
}

// Sample is a round trip.
type Sample struct {
	RTT time.Duration `json:"rtt"`
	At  time.Time     `json:"at"`
}

// Table is all that a worker knows of distances. It has one owner.
type Table struct {
	Own   State            `json:"own"`
	Peers map[string]*Peer `json:"peers"`
}

// NewTable knows nothing.
func NewTable(seed uint64) *Table { return &Table{Own: NewState(seed), Peers: map[string]*Peer{}} }

// RestoreTable puts right what was written down and read again.
func RestoreTable(t *Table, seed uint64) *Table {
	out := NewTable(seed)
	out.Own = Restored(t.Own, seed)
	for name, p := range t.Peers {
		if p == nil || !p.Point.Valid() || len(out.Peers) >= MaxPeers {
			continue
		}
		p.Last = slices.DeleteFunc(p.Last, func(s Sample) bool { return s.RTT < MinRTT || s.RTT > MaxRTT })
		p.Last = p.Last[max(0, len(p.Last)-samples):]
		out.Peers[name] = p
	}
	return out
}

// Distance to another worker.
type Distance struct {
	// RTT is above zero where Known is set.
	RTT time.Duration
	// Measured by probes of the path, or else estimated from coordinates.
	Known, Measured bool
	// At is when it was measured, or when the other side said where it is.
	At time.Time
}

// Distance to a peer as known at now.
func (t *Table) Distance(name string, now time.Time) Distance {
	p := t.Peers[name]
	if p == nil {
		return Distance{}
	}
	direct, at := p.direct()
	switch estimate := t.Estimate(name); {
	case direct > 0 && (now.Sub(at) <= Fresh || estimate == 0):
		return Distance{RTT: direct, Known: true, Measured: now.Sub(at) <= Fresh, At: at}
	case estimate > 0:
		return Distance{RTT: estimate, Known: true, At: p.PointAt}
	}
	return Distance{}
}

// Estimate is the distance to a peer by coordinates alone; 0 where one of the two
// places is not known.
func (t *Table) Estimate(name string) time.Duration {
	p := t.Peers[name]
	if p == nil || p.PointAt.IsZero() || t.Own.Point.Error >= worstError {
		return 0
	}
	return t.Own.Point.Distance(p.Point)
}

// direct is the least of the last samples: what is above it is queues and
// schedulers. A path that has become longer shows when those before are gone.
func (p *Peer) direct() (rtt time.Duration, at time.Time) {
	if len(p.Last) == 0 {
		return 0, at
	}
	at = p.Last[len(p.Last)-1].At
	for _, s := range p.Last {
		if at.Sub(s.At) <= Fresh && (rtt == 0 || s.RTT < rtt) {
			rtt = s.RTT
		}
	}
	return rtt, at
}

// Observe takes a round trip to a peer, and where it says that it is (nil: it does
// not say). An error means that it is impossible, and nothing was taken but that it was tried.
func (t *Table) Observe(name string, rtt time.Duration, at *Point, now time.Time) error {
	if rtt < MinRTT || rtt > MaxRTT {
		t.Failed(name, fmt.Sprintf("a round trip of %v", rtt), now)
		return fmt.Errorf("round trip of %v to %s: %w", rtt, name, errSample)
	}
	p := t.peer(name, now)
	p.Last = append(p.Last, Sample{RTT: rtt, At: now})
	p.Last = slices.Clone(p.Last[max(0, len(p.Last)-samples):])
	p.Tried, p.Failures, p.Why = now, 0, ""
	if at == nil {
		return nil
	}
	direct, _ := p.direct()
	next, err := t.Own.Step(*at, direct)
	if err != nil {
		return fmt.Errorf("distance to %s: %w", name, err)
	}
	t.Own, p.Point, p.PointAt = next, *at, now
	return nil
}

// Told takes where a peer says that it is, without a measurement. What is not a
// valid Point is not taken.
func (t *Table) Told(name string, at Point, now time.Time) {
	if at.Valid() {
		p := t.peer(name, now)
		p.Point, p.PointAt = at, now
	}
}

// Failed notes that a peer could not be measured.
func (t *Table) Failed(name, why string, now time.Time) {
	p := t.peer(name, now)
	p.Tried, p.Why = now, why
	p.Failures = min(p.Failures+1, backOff)
}

func (t *Table) peer(name string, now time.Time) *Peer {
	if p := t.Peers[name]; p != nil {
		return p
	}
	if len(t.Peers) >= MaxPeers {
		oldest, since := "", now
		for n, p := range t.Peers {
			if at := p.heard(); oldest == "" || at.Before(since) || at.Equal(since) && n < oldest {
				oldest, since = n, at
			}
		}
		delete(t.Peers, oldest)
	}
	p := &Peer{}
	t.Peers[name] = p
	return p
}

func (p *Peer) heard() time.Time {
	at := p.PointAt
	if n := len(p.Last); n > 0 && p.Last[n-1].At.After(at) {
		at = p.Last[n-1].At
	}
	return at
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

// Join chooses whom to measure at once when a worker comes to a place with these
// peers: all of at most AtOnce; of more the nearest, as far as that is known, and
// others at random, of whom landmarks come first.
func (t *Table) Join(peers, landmarks []string, seed uint64, now time.Time) []string {
	list := sorted(peers, landmarks)
	if len(list) <= AtOnce {
		return list
	}
	chosen := t.nearest(list, firstNear, now)
	rng := rand.New(rand.NewPCG(seed, 3))
	others := sorted(landmarks)
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), AtOnce/4)]
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, name := range append(others, list...) {
		if len(chosen) < AtOnce && !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

// Choose says which workers of one service are to be measured: all of at most
// PerService; of more the nearest by what is known, the last quarter of them
// strangers, as long as there are any: without a place nobody can be found near.
func (t *Table) Choose(workers []string, seed uint64, now time.Time) []string {
	list := sorted(workers)
	if len(list) <= PerService {
		return list
	}
	var strangers []string
	for _, name := range list {
		if !t.Distance(name, now).Known {
			strangers = append(strangers, name)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	rng.Shuffle(len(strangers), func(i, j int) { strangers[i], strangers[j] = strangers[j], strangers[i] })
	near := t.nearest(list, PerService, now)
	room := max(PerService-len(near), min(PerService/4, len(strangers)))
	return append(near[:min(len(near), PerService-room)], strangers[:min(room, len(strangers))]...)
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

// Next is whom of those wanted to measure next, and when: who was measured longest
// ago, at most once in a StableMin, or in a Moving as long as there are fewer samples
// than a distance is the least of: the first ones fall into the bustle of a start. Who
// does not answer is asked twice as long after each failure. False if nobody is wanted.
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
func sorted(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
