package exchange

import (
	"encoding/json"
	"sort"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what is held of one peer where its owner sets none.
const (
	defaultMaxKeys  = 100_000
	defaultMaxBytes = 128 << 20
)

// keyOverhead stands for what a key costs in memory beside its bytes.
const keyOverhead = 64

// Inbox is the upper side's copy of one peer's observed state. It is not safe
// for concurrent use: its owner handles a peer's reports one after another.
type Inbox struct {
	// MaxKeys and MaxBytes (of keys and values) bound what is held; 0 are the
	// defaults. A peer is believed no more than that, whatever has become of it:
	// what goes beyond is left out and counted, see Overflow.
	MaxKeys  int
	MaxBytes int

	state   map[string]json.RawMessage
	bytes   int
	over    int
	at      wire.Rev
	pending *Inbox // a full state of which the last page is still missing
}

// Ack is the revision that has been taken over.
func (b *Inbox) Ack() wire.Rev { return b.at }

// Heading is an inbox at the same revision without the state, which it does not share:
// for who only wants to know how far this one is.
func (b *Inbox) Heading() Inbox { return Inbox{MaxKeys: b.MaxKeys, MaxBytes: b.MaxBytes, at: b.at} }

// Restart makes the next report be one of everything, of a peer that is another one than
// before: what it replaces is here until then.
func (b *Inbox) Restart() { b.at, b.pending = wire.Rev{}, nil }

// State returns the values by key. It must not be modified.
func (b *Inbox) State() map[string]json.RawMessage { return b.state }

// Overflow counts the changes that were left out because of the bounds since
// the last full state.
func (b *Inbox) Overflow() int { return b.over }

// Accept takes over the changes of a report and returns what they change here:
// for a full one also the tombstones of the keys that are no longer there.
// A report that does not continue from what is here changes nothing; the
// sender sees that by the Ack and starts again from there.
func (b *Inbox) Accept(r wire.Report) []wire.Change {
	if r.To.IsZero() {
		return nil // nothing new was said
	}
	switch {
	case r.From.IsZero() && r.More:
		b.pending = b.empty(r.To)
		b.pending.apply(r.Changes)
		return nil
	case r.From.IsZero():
		return b.replace(b.empty(r.To), r.Changes)
	case b.pending != nil && r.From == b.pending.at:
		if r.More {
			b.pending.apply(r.Changes)
			b.pending.at = r.To
			return nil
		}
		next := b.pending
		next.at = r.To
		return b.replace(next, r.Changes)
	case r.From == b.at:
		b.pending = nil
		b.at = r.To
		return b.apply(r.Changes)
	}
	b.pending = nil
	return nil
}

// empty is an inbox with the bounds of b.
func (b *Inbox) empty(at wire.Rev) *Inbox {
	return &Inbox{MaxKeys: b.MaxKeys, MaxBytes: b.MaxBytes, at: at}
}

// AckFor is what to tell the sender of r: a page of a full state that is still
// incomplete is acknowledged, so that the next page follows.
func (b *Inbox) AckFor(r wire.Report) wire.Rev {
	if b.pending != nil && r.More {
		return b.pending.at
	}
	return b.at
}

// apply returns the changes that were taken over.
func (b *Inbox) apply(changes []wire.Change) []wire.Change {
	if b.state == nil {
		b.state = map[string]json.RawMessage{}
	}
	taken := changes[:0:0]
	for _, c := range changes {
		if b.put(c) {
			taken = append(taken, c)
		}
	}
	return taken
}

// put takes over one change if it fits. A value that does not leaves the one of
// before, which is old but was true.
func (b *Inbox) put(c wire.Change) bool {
	old, there := b.state[c.Key]
	if c.Deleted {
		if there {
			b.bytes -= cost(c.Key, old)
			delete(b.state, c.Key)
		}
		return true
	}
	grow := cost(c.Key, c.Value)
	if there {
		grow -= cost(c.Key, old)
	}
	if (!there && len(b.state) >= orDefault(b.MaxKeys, defaultMaxKeys)) ||
		(grow > 0 && b.bytes+grow > orDefault(b.MaxBytes, defaultMaxBytes)) || len(c.Key) > bus.MaxKeyBytes {
		b.over++
		return false
	}
	b.bytes += grow
	b.state[c.Key] = c.Value
	return true
}

func cost(key string, value json.RawMessage) int { return len(key) + len(value) + keyOverhead }

func orDefault(v, def int) int {
	if v > 0 {
		return v
	}
	return def
}

// replace makes next, completed by changes, the state, and returns the
// difference to what was there.
func (b *Inbox) replace(next *Inbox, changes []wire.Change) []wire.Change {
	next.apply(changes)
	var diff []wire.Change
	for k, v := range next.state {
		if old, ok := b.state[k]; !ok || string(old) != string(v) {
			diff = append(diff, wire.Change{Key: k, Value: v})
		}
	}
	for k := range b.state {
		if _, ok := next.state[k]; !ok {
			diff = append(diff, wire.Change{Key: k, Deleted: true})
		}
	}
	sort.Slice(diff, func(i, j int) bool { return diff[i].Key < diff[j].Key })
	*b = *next
	return diff
}
