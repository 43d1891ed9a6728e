package objects

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// marks are the names on a store as a cluster tells them to its root, which places near
// them what says that it reads them.
type marks struct {
	// at is when what a mark stands for was put, by the prefix of its records.
	at map[string]map[wire.ObjectMark]time.Time
	// packed is the packed list; nil: it has changed since.
	packed []byte
}

func newMarks() marks { return marks{at: map[string]map[wire.ObjectMark]time.Time{}} }

// noted adds a present record, and gone removes one.
func (s *Store) noted(prefix string, r *record.Object) {
	if r.Namespace == wire.ProgramsNamespace { // which no service reads
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.at[prefix] == nil {
		s.marks.at[prefix] = map[wire.ObjectMark]time.Time{}
	}
	s.marks.at[prefix][wire.MarkOf(r.Namespace, r.Name)], s.marks.packed = r.Updated, nil
}

func (s *Store) gone(prefix string, r *record.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks.at[prefix], wire.MarkOf(r.Namespace, r.Name))
	s.marks.packed = nil
}

// Marks are those of the objects that are here, own ones and copies, as wire.PackMarks has
// them; of more than wire.MaxObjectMarks the ones that were put last. What is returned is
// not to be changed. It does not wait for the store.
func (s *Store) Marks() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.packed != nil {
		return s.marks.packed
	}
	all := map[wire.ObjectMark]time.Time{}
	for _, of := range s.kinds() {
		for m, at := range s.marks.at[of.prefix] {
			if at.After(all[m]) || all[m].IsZero() {
				all[m] = at
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(all), func(a, b wire.ObjectMark) int {
		return cmp.Or(all[b].Compare(all[a]), bytes.Compare(a[:], b[:]))
	})
	if s.marks.packed = wire.PackMarks(list); s.marks.packed == nil {
		s.marks.packed = []byte{}
	}
	return s.marks.packed
}
