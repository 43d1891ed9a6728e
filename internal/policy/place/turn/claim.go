package turn

import (
	"cmp"
	"slices"
)

// Claim is the claim of an instance if there is not room for all. Priority counts within
// its group (a namespace); Rank, which never exceeds Priority, counts against other groups.
// Within a group a higher priority has at least the same rank.
type Claim struct {
	Group          string
	Rank, Priority int
}

// RankOf returns what a priority counts against other groups, limited to most; most 0: it
// counts only within its group.
func RankOf(priority, most int) int { return max(0, min(priority, most)) }

// Over says whether claim c may displace claim o. Displacement cannot form a cycle: the
// displaced has a lower (rank, priority), rank first.
func (c Claim) Over(o Claim) bool {
	if c.Group == o.Group {
		return c.Priority > o.Priority
	}
	return c.Rank > o.Rank
}

// Compare orders claims by which is ended first if both may be: the lower rank, then the
// lower priority.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(cmp.Compare(c.Rank, o.Rank), cmp.Compare(c.Priority, o.Priority))
}

// Waiter is an instance that waits for a place.
type Waiter struct {
	Claim
	// Promised: others are already making room for it.
	Promised bool
}

// InTurn returns the order in which waiters are placed, as indices of the list: the highest
// rank first, within a rank those for whom others make room, else in the order of the list.
// Within a rank, each group fills its slots in that order by priority, highest first. So a
// priority that counts only within a group does not let its instances precede those of
// others, and no waiter takes room that was made for another.
func InTurn(list []Waiter) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	if !slices.ContainsFunc(list, func(w Waiter) bool { return w.Priority > 0 || w.Rank > 0 }) {
		return order // without priority nothing was displaced
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
