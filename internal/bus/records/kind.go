package records

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// Kind is a kind of records as an operator has to know it who drops one that cannot be
// read: the others are dropped, and made, by who they are about.
type Kind struct {
	// Prefix of its keys; of several kinds the longest that fits counts.
	Prefix string
	Fate   Fate
	// Drop is in words what follows when one is dropped.
	Drop string
	// Security: who is let in, or what is known of what people did, hangs on it.
	Security bool
	// Ask: the role asks those around it afterwards what they hold, as after a restore, and
	// takes over what it does not know any more, before it decides anything.
	Ask bool
	// With are keys that go along.
	With []string
	// Instead makes the value that takes its place; nil: none does.
	Instead func(now time.Time) ([]byte, error)
	// Read says why one cannot be read; nil: the role finds that when it starts.
	Read func(bus.Entry) error
}

// Lost is a stored record that cannot be read.
type Lost struct {
	Unread
	Kind  Kind
	Entry bus.Entry
}

// KindOf is the kind of a key: one without a prefix, that holds, where there is none.
func KindOf(key string, kinds []Kind) Kind {
	best := Kind{Fate: Holds, Drop: "what hangs on it is not known"}
	for _, k := range kinds {
		if strings.HasPrefix(key, k.Prefix) && len(k.Prefix) > len(best.Prefix) {
			best = k
		}
	}
	return best
}

// FindLost are the entries that cannot be read, by load or by who reads their kind, those
// first that matter most.
func FindLost(entries []bus.Entry, kinds []Kind, load func(bus.Entry) error) []Lost {
	byKey := map[string]Lost{}
	var list []Unread
	for _, e := range entries {
		k := KindOf(e.Key, kinds)
		read := load
		if k.Read != nil {
			read = k.Read
		}
		if err := read(e); err != nil {
			u := Unread{Key: e.Key, Fate: k.Fate, Err: err}
			list = append(list, u)
			byKey[e.Key] = Lost{Unread: u, Kind: k, Entry: e}
		}
	}
	out := make([]Lost, 0, len(list))
	for _, u := range Worst(list) {
		out = append(out, byKey[u.Key])
	}
	return out
}

// Reads is the Read of a kind whose records are a T.
func Reads[T any](e bus.Entry) error { return Load(e, new(T)) }
