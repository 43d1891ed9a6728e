package place

import (
	"maps"
	"slices"
)

// cloneMap copies a map; an empty one becomes nil, as in cloneList.
func cloneMap[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// cloneList copies a list; an empty one becomes nil, as it does on its way
// through JSON.
func cloneList(l []string) []string {
	if len(l) == 0 {
		return nil
	}
	return slices.Clone(l)
}

// count returns 1 for true and 0 for false.
func count(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

func overlap(wanted []string, has ...[]string) bool {
	for _, list := range has {
		for _, s := range list {
			if slices.Contains(wanted, s) {
				return true
			}
		}
	}
	return false
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// common lists what is in both, in the order of a.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// clean returns a slice of n zeros, reusing the memory of s.
func clean[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func setOf(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
