package coord

import (
	"fmt"
	"slices"
	"time"
)

// Times and bounds of what is remembered.
const (
	// Fresh is how long a measured distance counts before the estimate.
	Fresh = 5 * time.Minute
	// Lasting is how long a measured distance is a better estimate than one from coordinates:
	// of a network in which a detour is part of most paths, coordinates say little.
	Lasting = time.Hour
	// MaxPeers are remembered; beyond them the one not heard of for longest is
	// forgotten.
	MaxPeers = 4096

	samples = 5 // of which a direct distance is the least
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
	case direct > 0 && (now.Sub(at) <= Lasting || estimate == 0):
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
	if p == nil || p.PointAt.IsZero() || t.Own.Point.Error >= worstError || p.Point.Error >= worstError {
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

// Placed takes where a cluster says that a peer is. What the peer itself said when it was
// measured is newer, and those that were heard of have at least half of the room.
func (t *Table) Placed(name string, at Point, now time.Time) {
	p := t.Peers[name]
	if p == nil && len(t.Peers) >= MaxPeers/2 || p != nil && len(p.Last) > 0 && now.Sub(p.PointAt) <= Lasting {
		return
	}
	t.Told(name, at, now)
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
