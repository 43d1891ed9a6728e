package bus

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
)

// Snapshot is all that a store holds at one moment, tombstones included, and the
// timeline that it belongs to: a store that is made of it is known to be a copy
// by whoever saw what the original did later.
type Snapshot struct {
	Timeline wire.Timeline
	// Last is the last revision that was given, Floor that of the newest tombstone
	// which is no longer kept.
	Last, Floor uint64
	// Entries by revision. Their values are shared with the store.
	Entries []Entry
}

// Amend adds an entry after all others, in an era of its own: the original may
// have given the revision to something else after the copy was made.
func (c *Snapshot) Amend(key string, value []byte) {
	c.Timeline = c.Timeline.Next(c.Last)
	c.Last++
	c.Entries = append(c.Entries, Entry{Key: key, Value: value, Rev: c.Last})
}

// List returns the live entries whose key starts with prefix, ordered by key.
func (c *Snapshot) List(prefix string) (live []Entry) {
	latest := map[string]Entry{}
	for _, e := range c.Entries {
		if strings.HasPrefix(e.Key, prefix) {
			latest[e.Key] = e
		}
	}
	for _, key := range slices.Sorted(maps.Keys(latest)) {
		if e := latest[key]; !e.Deleted {
			live = append(live, e)
		}
	}
	return live
}
