package backup

import (
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// SettledKey is the key of Settled in a store.
const SettledKey = "settled"

// Settled is what recoveries have dealt with: the states of other eras that peers have
// proved. It outlasts the recovery, so that an old proof does not begin another one.
// A nil one is empty, and none is ever changed: each method returns a copy.
type Settled struct {
	V int `json:"v"`
	// At is Mark.At of the recovery that ended last, and Until the last sequence number that
	// the store had at its end.
	At    time.Time `json:"at,omitzero"`
	Until uint64    `json:"until,omitempty"`
	// Seen has for each peer the last state that it has proved of each other era.
	Seen map[string]map[string]uint64 `json:"seen,omitempty"`
	// Unheard are the peers without which somebody ended a recovery, until they have what
	// is wanted of them now.
	Unheard map[string]bool `json:"unheard,omitempty"`
}

func (s *Settled) clone() *Settled {
	next := Settled{V: wire.Version}
	if s != nil {
		next = *s
	}
	next.Seen, next.Unheard = copyOf(next.Seen), copyOf(next.Unheard)
	return &next
}

// Heard is s after a peer, which has proved the state has (zero: it has proved none), has said
// what it holds.
func (s *Settled) Heard(peer string, has wire.Rev) *Settled {
	if has.IsZero() && !s.missing(peer) {
		return s
	}
	next := s.clone()
	delete(next.Unheard, peer)
	eras := copyOf(next.Seen[peer])
	if !has.IsZero() {
		eras[has.Inc] = max(eras[has.Inc], has.N)
		next.Seen[peer] = eras
	}
	return next
}

// Without is s after somebody continued the recovery without a peer, which has proved the state
// has (zero: none yet).
func (s *Settled) Without(peer string, has wire.Rev) *Settled {
	if !has.IsZero() {
		return s.Heard(peer, has)
	}
	next := s.clone()
	next.Unheard[peer] = true
	return next
}

// Ended is s after the recovery m has ended, when the last sequence number of the store was last.
func (s *Settled) Ended(m *Mark, last uint64) *Settled {
	next := s.clone()
	next.At, next.Until = m.At, last
	return next
}

// missing says whether a recovery went on without a peer that has not been heard since.
func (s *Settled) missing(peer string) bool { return s != nil && s.Unheard[peer] }

// Back is s after the peers that are there (now) have what is wanted of them; nil: as it is.
func (s *Settled) Back(there func(peer string) bool) *Settled {
	if s == nil {
		return nil
	}
	var next *Settled
	for peer := range s.Unheard {
		if !there(peer) {
			continue
		}
		if next == nil {
			next = s.clone()
		}
		delete(next.Unheard, peer)
	}
	return next
}

// covers says whether a peer's proof needs no question any longer. twin says that this process
// had sent the peer something before: another process has since.
func (s *Settled) covers(peer string, has wire.Rev, twin bool) bool {
	if s == nil {
		return false
	}
	if n, seen := s.Seen[peer][has.Inc]; seen && has.N <= n {
		return true
	}
	switch {
	case twin:
		return false
	case s.missing(peer):
		return true
	case s.Until == 0:
		return false
	case has.N <= s.Until: // a store that went on from after the recovery has more
		return true
	}
	for eras := range maps.Values(s.Seen) {
		if _, seen := eras[has.Inc]; seen {
			return true
		}
	}
	return false
}
