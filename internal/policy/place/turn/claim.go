package turn

import (
	"cmp"
	"slices"
)

// Claim is what an instance may claim where there is not room for all. Priority counts
// within its group (a namespace), Rank, which is no more than that, against all others.
// Within a group who has a higher priority has at least the same rank.
type Claim struct {
	Group          string
	Rank, Priority int
}

// RankOf is what a priority counts for against other groups, where most is the highest
// that does; most 0: it counts within its group alone.
func RankOf(priority, most int) int { return max(0, min(priority, most)) }

// Over says whether who has claim c may displace who has o. None can displace each other
// in a ring: whoever is displaced has a lower (rank, priority), rank first.
func (c Claim) Over(o Claim) bool {
	if c.Group == o.Group {
		return c.Priority > o.Priority
	}
	return c.Rank > o.Rank
}

// Compare says which of two is ended first where both may be: that of the lower rank,
// then that of the lower priority.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(cmp.Compare(c.Rank, o.Rank), cmp.Compare(c.Priority, o.Priority))
}

// Waiter is an instance that waits for a place.
type Waiter struct {
	Claim
	// Promised: others make room for it already.
	Promised bool
}

// InTurn is the order in which those who wait are placed, as indices of the list: those
// of the highest rank first, of one rank those first for whom others make room, else as
// they are listed. The places that a group has in that order are for those of it with
// the highest priority. So a priority that counts within a group alone does not let its
// instances go before those of others, and nobody takes the room that another has made.
func InTurn(list []Waiter) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	if !slices.ContainsFunc(list, func(w Waiter) bool { return w.Priority > 0 || w.Rank > 0 }) {
		return order // who has no priority has displaced nobody
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[b].Rank, list[a].Rank), cmp.Compare(promised(&list[b]), promised(&list[a])))
	})
	type class struct {
		group string
		rank  int
	}
	places, who := map[class][]int{}, map[class][]int{}
	for at, i := range order {
		c := class{list[i].Group, list[i].Rank}
		places[c], who[c] = append(places[c], at), append(who[c], i)
	}
	for c, of := range who {
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(list[b].Priority, list[a].Priority) })
		for k, at := range places[c] {
			order[at] = of[k]
		}
	}
	return order
}

func promised(w *Waiter) int {
	if w.Promised {
		return 1
	}
	return 0
}
