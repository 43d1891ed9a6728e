package rollout

import (
	"cmp"
	"fmt"
)

// Somebody can be asked before each wave of a rollout (Rules.Asked): before each step of its
// trial, and then before each group of as many instances as may be brought to the new
// revision at a time. The first wave covers what stands in for others, so that before it
// nothing of the new revision runs. A wave is asked about when the one before is through: all
// of it is ready, and a step has lasted as long as it must. Until somebody agrees everything
// stays as it is, a step of a trial among it.

// wave is how many of those promised are of one wave.
func (r Rules) wave() int { return max(1, r.Surge+r.Unavailable) }

// waves is how many there are, of n promised.
func (r Rules) waves(n int) int { return len(r.Steps) + (max(n, 1)+r.wave()-1)/r.wave() }

// turned is how many of those promised are to be of the new revision, ready or not.
func (s *State) turned() (n int) {
	for i := range s.Units {
		if u := &s.Units[i]; u.Updated && !u.Extra {
			n++
		}
	}
	return n
}

// left is how many of those promised may be updated by what was agreed to.
func (r Rules) left(s *State) int { return (s.Agreed-len(r.Steps))*r.wave() - s.turned() }

// hold keeps a rollout from beginning a wave that nobody has agreed to, after its trial, where
// something is left to be updated; inFlight are those that are not ready yet.
func (a *Action) hold(r Rules, s *State, inFlight int) bool {
	if !r.Asked || r.left(s) > 0 {
		return false
	}
	if inFlight == 0 {
		a.Ask = len(r.Steps) + s.turned()/r.wave() + 1
	}
	return true
}

// asks says in words which wave waits for somebody's word; "" for none.
func (a *Action) asks(s *State) string {
	if a.Ask == 0 {
		return ""
	}
	return fmt.Sprintf("wave %d of %d waits for the word of a hook: %s", a.Ask, a.Waves,
		cmp.Or(s.Unheard, "it is being asked"))
}
