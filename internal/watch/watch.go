package watch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Watch is one who watches. Close may be called by anybody, the rest by one
// goroutine.
type Watch struct {
	run   *run
	kinds map[string]bool
	pos   uint64 // the last change that was seen
	over  sync.Once
}

// Close ends it.
func (w *Watch) Close() {
	w.over.Do(func() {
		w.run.unwant(w.kinds)
		w.run.hub.leave()
	})
}

// Place is where the watch is, to go on from with Resume.
func (w *Watch) Place() string { return fmt.Sprintf("%s-%d", w.run.id, w.pos) }

// Resume goes on from a Place; false if that is not possible.
func (w *Watch) Resume(place string) bool {
	id, n, ok := strings.Cut(place, "-")
	seq, err := strconv.ParseUint(n, 10, 64)
	if !ok || err != nil || id != w.run.id {
		return false
	}
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.seq || r.lostLocked(seq) {
		return false
	}
	for k := range w.kinds {
		if l := r.kinds[k]; l == nil || !l.listed || l.since > seq {
			return false
		}
	}
	w.pos = seq
	return true
}

// lostLocked says whether the log does not reach back to a change.
func (r *run) lostLocked(seq uint64) bool { return r.seq-seq > uint64(len(r.log)) }

// State is everything as it is now, by kind and key; the watch goes on from there.
func (w *Watch) State() map[string][]Item {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string][]Item, len(w.kinds))
	for k := range w.kinds {
		if l := r.kinds[k]; l != nil {
			out[k] = l.all()
		}
	}
	w.pos = r.seq
	return out
}

// Kinds that are watched, sorted.
func (w *Watch) Kinds() []string { return slices.Sorted(maps.Keys(w.kinds)) }

// Next returns at most n changes of the log after the last that was seen; they may
// be of other kinds, too (see Wants). Without any it returns what is closed when
// there are more. lost: some are not there any more, State is to be asked for.
func (w *Watch) Next(n int) (changes []Change, more <-chan struct{}, lost bool) {
	r := w.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lostLocked(w.pos) {
		return nil, nil, true
	}
	changes = r.log[len(r.log)-int(r.seq-w.pos):]
	changes = slices.Clone(changes[:min(n, len(changes))])
	w.pos += uint64(len(changes))
	return changes, r.changed, false
}

// Wants says whether a kind is watched.
func (w *Watch) Wants(kind string) bool { return w.kinds[kind] }

// PlaceOf is where the watch is after a change.
func (w *Watch) PlaceOf(c Change) string { return fmt.Sprintf("%s-%d", w.run.id, c.Seq) }
