package turn_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/place/turn"
)

func TestWhatOthersNeedComesFirst(t *testing.T) {
	for _, c := range []struct {
		list, want string
		needs      map[string]string
	}{
		{"a b c", "a b c", nil},
		{"a b c", "c b a", map[string]string{"a": "b", "b": "c"}},
		{"a b c", "b a c", map[string]string{"a": "b", "c": "a"}},
		{"a b c", "b a c", map[string]string{"a": "b", "b": "a"}},
		{"a b", "a b", map[string]string{"a": "elsewhere"}},
	} {
		got := turn.AfterNeeds(strings.Fields(c.list), func(key string) []string { return strings.Fields(c.needs[key]) })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s with %v: %v, want %s", c.list, c.needs, got, c.want)
		}
	}
}

// Without circles nothing comes before what it needs, and nothing is lost or added.
func TestNothingComesBeforeItsNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.Permutation(strings.Split("abcdefgh", "")).Draw(t, "list")
		needs := map[string][]string{}
		for _, key := range list {
			for _, to := range list {
				if to < key && rapid.Bool().Draw(t, key+to) {
					needs[key] = append(needs[key], to)
				}
			}
		}
		got := turn.AfterNeeds(list, func(key string) []string { return needs[key] })
		for i, key := range got {
			for _, to := range needs[key] {
				if slices.Index(got, to) > i {
					t.Fatalf("%v: %s before %s, which it needs", got, key, to)
				}
			}
		}
		if slices.Sort(got); strings.Join(got, "") != "abcdefgh" {
			t.Fatalf("%v", got)
		}
	})
}
