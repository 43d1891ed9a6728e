package sorted

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The elements come as if all had been sorted, whichever are asked for first.
func TestListIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfNDistinct(rapid.IntRange(0, 1000), 0, 60, rapid.ID).Draw(t, "items")
		want := slices.Sorted(slices.Values(items))
		l := Of(slices.Clone(items), func(a, b *int) bool { return *a < *b })
		if l.Len() != len(want) {
			t.Fatalf("%d elements of %d", l.Len(), len(want))
		}
		if len(want) == 0 {
			return
		}
		for range rapid.IntRange(0, 20).Draw(t, "looks") {
			i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
			if got := *l.At(i); got != want[i] {
				t.Fatalf("at %d is %d, want %d", i, got, want[i])
			}
		}
	})
}

// Only what is asked for is sorted.
func TestListSortsWhatIsAskedFor(t *testing.T) {
	items := make([]int, 1000)
	for i := range items {
		items[i] = i * 7919 % 1000
	}
	compared := 0
	l := Of(items, func(a, b *int) bool { compared++; return *a < *b })
	for i := range 5 {
		if got := *l.At(i); got != i {
			t.Fatalf("at %d is %d", i, got)
		}
	}
	if compared > 3*len(items) {
		t.Errorf("%d comparisons for the first 5 of %d", compared, len(items))
	}
}
