package addr

import "fmt"

// Numbers gives numbers from first to last to holders by name, each to one. It has
// one owner and no lock.
type Numbers struct {
	first, last, next uint32
	by                map[string]uint32
	held              map[uint32]string
}

// NewNumbers gives the numbers from first to last, both included.
func NewNumbers(first, last uint32) *Numbers {
	return &Numbers{first: first, last: last, next: first, by: map[string]uint32{}, held: map[uint32]string{}}
}

// Keep notes a number that a holder has from an earlier run. False if it is
// another's, or not one to give.
func (n *Numbers) Keep(holder string, number uint32) bool {
	if number < n.first || number > n.last {
		return false
	}
	if h, taken := n.held[number]; taken {
		return h == holder
	}
	n.Release(holder)
	n.by[holder], n.held[number] = number, holder
	if number >= n.next {
		n.next = number + 1
	}
	return true
}

// Take gives a number: the one that the holder has, or one that was not used for
// the longest time.
func (n *Numbers) Take(holder string) (uint32, error) {
	if had, ok := n.by[holder]; ok {
		return had, nil
	}
	if n.last < n.first || uint64(len(n.held)) > uint64(n.last-n.first) {
		return 0, fmt.Errorf("all %d are in use", len(n.held))
	}
	for {
		if n.next < n.first || n.next > n.last {
			n.next = n.first
		}
		at := n.next
		n.next++
		if _, taken := n.held[at]; !taken {
			n.by[holder], n.held[at] = at, holder
			return at, nil
		}
	}
}

// Release gives a holder's number back, if it has one.
func (n *Numbers) Release(holder string) {
	if had, ok := n.by[holder]; ok {
		delete(n.by, holder)
		delete(n.held, had)
	}
}
