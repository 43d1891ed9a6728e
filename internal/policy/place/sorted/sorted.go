package sorted

// List is a list in order. The zero value is empty. It must not be used by several goroutines
// at a time.
type List[T any] struct {
	items  []T
	before func(a, b *T) bool
	// order are indices of items: first a heap of those whose place is not known yet, then
	// the others, in order from the end.
	order []int32
	heap  int
}

// Of returns items in the order of before, which must be a strict order of all of them. It
// neither copies nor moves them.
func Of[T any](items []T, before func(a, b *T) bool) *List[T] {
	l := &List[T]{items: items, before: before, order: make([]int32, len(items)), heap: len(items)}
	for i := range l.order {
		l.order[i] = int32(i)
	}
	for i := len(items)/2 - 1; i >= 0; i-- {
		l.down(i)
	}
	return l
}

// Len is how many elements there are.
func (l *List[T]) Len() int { return len(l.order) }

// At returns the element with i before it.
func (l *List[T]) At(i int) *T {
	at := len(l.order) - 1 - i
	for l.heap > at {
		l.heap--
		l.order[0], l.order[l.heap] = l.order[l.heap], l.order[0]
		l.down(0)
	}
	return &l.items[l.order[at]]
}

// down moves the index at i in the heap to where none below it comes before it.
func (l *List[T]) down(i int) {
	moved := l.order[i]
	for {
		kid := 2*i + 1
		if kid >= l.heap {
			break
		}
		if kid+1 < l.heap && l.before(&l.items[l.order[kid+1]], &l.items[l.order[kid]]) {
			kid++
		}
		if !l.before(&l.items[l.order[kid]], &l.items[moved]) {
			break
		}
		l.order[i] = l.order[kid]
		i = kid
	}
	l.order[i] = moved
}
