package imagestore

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// kept is an image as it looks to who removes some.
type kept struct {
	name  string
	size  int64
	used  time.Time // when it was last needed, to a day
	inUse bool
	// pulled: it can be fetched again. What was loaded by hand cannot.
	pulled bool
}

// Gone is an image that was removed to make room.
type Gone struct {
	Name string
	Size int64 // of its parts as they were pulled, in bytes
	Why  string
}

// expired are the images that nobody has needed for longer than age, and that can be
// fetched again; with an age of 0 none are.
func expired(list []kept, now time.Time, age time.Duration) []Gone {
	var out []Gone
	for _, k := range list {
		if unused := now.Sub(k.used); age > 0 && !k.inUse && k.pulled && unused > age {
			out = append(out, Gone{k.name, k.size, fmt.Sprintf("nothing has needed it for %d days", int(unused.Hours()/24))})
		}
	}
	return out
}

// spare is the order in which images go while the disk is full: what was pulled before
// what was loaded by hand, and of these what was needed longest ago. What is in use stays.
func spare(list []kept) []kept {
	list = slices.DeleteFunc(slices.Clone(list), func(k kept) bool { return k.inUse })
	slices.SortFunc(list, func(a, b kept) int {
		if a.pulled != b.pulled {
			if a.pulled {
				return -1
			}
			return 1
		}
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name))
	})
	return list
}
