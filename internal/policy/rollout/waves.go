package rollout

import (
	"cmp"
	"fmt"
)

// Each wave of a rollout may need approval (Rules.Asked): each step of its trial, and then each
// group of as many instances as may be updated at a time. The first wave includes the surge, so
// that nothing of the new revision runs before it. Approval is asked for when the wave before is
// complete: its instances are ready, and a step has lasted long enough. Until then everything stays
// as it is, including a step of a trial.

// wave is how many promised instances one wave has.
func (r Rules) wave() int { return max(1, r.Surge+r.Unavailable) }

// waves is how many waves n promised instances have.
func (r Rules) waves(n int) int { return len(r.Steps) + (max(n, 1)+r.wave()-1)/r.wave() }

// turned counts the promised instances of the new revision, ready or not.
func (s *State) turned() (n int) {
	for i := range s.Units {
		if u := &s.Units[i]; u.Updated && !u.Extra {
			n++
		}
	}
	return n
}

// left is how many more promised instances the approved waves allow to update.
func (r Rules) left(s *State) int { return (s.Agreed-len(r.Steps))*r.wave() - s.turned() }

// hold keeps a rollout from beginning a wave without approval, after its trial, if instances are
// left to update; inFlight counts those that are not ready yet.
func (a *Action) hold(r Rules, s *State, inFlight int) bool {
	if !r.Asked || r.left(s) > 0 {
		return false
	}
	if inFlight == 0 {
		a.Ask = len(r.Steps) + s.turned()/r.wave() + 1
	}
	return true
}

// asks says which wave waits for approval; "" for none.
func (a *Action) asks(s *State) string {
	if a.Ask == 0 {
		return ""
	}
	return fmt.Sprintf("wave %d of %d waits for the word of a hook: %s", a.Ask, a.Waves,
		cmp.Or(s.Unheard, "it is being asked"))
}
