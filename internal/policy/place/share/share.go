package share

import "slices"

// Taker is one that may take replicas.
type Taker struct {
	// Same counts the instances that it has; Expected the replicas for which it is expected
	// to have room, at most the number wanted; Even those of these that it takes in turn.
	Same, Expected, Even int

	due bool // one of those of which the first in order take one more
}

// has is how many instances it will have.
func (t *Taker) has() int { return t.Same + t.Even }

// Evenly gives replicas to takers, one each in turn, those with fewer instances first, and
// returns how many are left. inOrder are all takers in the order that decides where there are
// fewer left than have a turn. The slice is used up.
func Evenly(takers []*Taker, left int, inOrder func(i int) *Taker) int {
	for left > 0 {
		takers = slices.DeleteFunc(takers, func(t *Taker) bool { return t.Even >= t.Expected })
		if len(takers) == 0 {
			break
		}
		least, turn := takers[0].has(), 0
		for _, t := range takers {
			if has := t.has(); has < least {
				least, turn = has, 1
			} else if has == least {
				turn++
			}
		}
		all := turn <= left
		for _, t := range takers {
			switch {
			case t.has() != least:
			case all:
				t.Even++
				left--
			default:
				t.due = true
			}
		}
		for i := 0; !all && left > 0; i++ {
			if t := inOrder(i); t.due {
				t.Even++
				left--
			}
		}
	}
	return left
}
