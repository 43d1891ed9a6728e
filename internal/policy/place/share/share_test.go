package share

import (
	"slices"
	"testing"
)

func TestEvenly(t *testing.T) {
	for name, c := range map[string]struct {
		has, room []int // in order
		replicas  int
		want      []int
		left      int
	}{
		"one each":                      {[]int{0, 0, 0}, []int{9, 9, 9}, 3, []int{1, 1, 1}, 0},
		"the first in order":            {[]int{0, 0, 0}, []int{9, 9, 9}, 2, []int{1, 1, 0}, 0},
		"those with fewer first":        {[]int{2, 0, 1}, []int{9, 9, 9}, 3, []int{0, 2, 1}, 0},
		"no more than there is room":    {[]int{0, 0}, []int{1, 3}, 9, []int{1, 3}, 5},
		"those without room have none":  {[]int{0, 0}, []int{0, -1}, 2, []int{0, 0}, 2},
		"the first of those with fewer": {[]int{1, 0, 0}, []int{9, 9, 9}, 1, []int{0, 1, 0}, 0},
		"nobody":                        {nil, nil, 2, nil, 2},
	} {
		var all []*Taker
		for i := range c.has {
			all = append(all, &Taker{Same: c.has[i], Expected: c.room[i]})
		}
		left := Evenly(slices.Clone(all), c.replicas, func(i int) *Taker { return all[i] })
		var got []int
		for _, x := range all {
			got = append(got, x.Even)
		}
		if left != c.left || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v and %d left, want %v and %d", name, got, left, c.want, c.left)
		}
	}
}
