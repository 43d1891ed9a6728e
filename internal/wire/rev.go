package wire

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Version of messages and stored records that this build writes.
const Version = 1

// MaxMessageBytes bounds one message between tiers; larger exchanges are paged.
const MaxMessageBytes = 1 << 20

// CheckVersion says whether a reader of this build understands v.
func CheckVersion(what string, v int) error {
	if v == Version || v == Version-1 {
		return nil
	}
	return fmt.Errorf("%s has wire version %d, this build reads %d and %d: upgrade the older side", what, v, Version-1, Version)
}

// Rev is a point in the history of a store: the incarnation (era) in which it
// was written, and the store's sequence number. The zero Rev is "nothing yet".
type Rev struct {
	Inc string `json:"i,omitempty"`
	N   uint64 `json:"n,omitempty"`
}

// IsZero reports whether nothing has been seen yet.
func (r Rev) IsZero() bool { return r == Rev{} }

// String is "era/number", for people.
func (r Rev) String() string {
	if r.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%.6s/%d", r.Inc, r.N)
}

// Era is one uninterrupted run of a store by one process. It starts at sequence
// number First (inclusive) and ends before the First of the next era.
type Era struct {
	ID    string `json:"id"`
	First uint64 `json:"first"`
	// At is when it began, in seconds of Unix time; 0 if not known.
	At int64 `json:"at,omitempty"`
}

// Began is when the era began, zero if not known.
func (e Era) Began() time.Time {
	if e.At == 0 {
		return time.Time{}
	}
	return time.Unix(e.At, 0)
}

// MaxEras is how many starts a store remembers; a peer older than that
// resynchronises fully.
const MaxEras = 64

// Timeline is the incarnation of a store: the eras it has been through, oldest first. Each
// start of the process that owns the store adds one. A copy that is restored later does not
// know the eras after it was made, so a peer's Rev from one of them is not Known and the peer
// resynchronises fully. An ordinary restart leaves every Rev known and costs nothing.
type Timeline []Era

// Next returns the timeline of a store that starts again when its last sequence
// number is last.
func (t Timeline) Next(last uint64) Timeline {
	next := append(Timeline{}, t...)
	next = append(next, Era{ID: NewID(), First: last + 1, At: time.Now().Unix()})
	if len(next) > MaxEras {
		next = next[len(next)-MaxEras:]
	}
	return next
}

// At returns the Rev of sequence number n in this timeline.
func (t Timeline) At(n uint64) Rev {
	for i := len(t) - 1; i >= 0; i-- {
		if n >= t[i].First || i == 0 {
			return Rev{Inc: t[i].ID, N: n}
		}
	}
	return Rev{}
}

// Known reports whether r lies on this timeline and not after last, so that
// "what changed since r" has a true answer.
func (t Timeline) Known(r Rev, last uint64) bool {
	for i, e := range t {
		if e.ID != r.Inc {
			continue
		}
		end := last
		if i+1 < len(t) {
			end = t[i+1].First - 1
		}
		// First-1 is the state that the era began with.
		return r.N+1 >= e.First && r.N <= end
	}
	return false
}

// Ahead reports whether r is a state that a store with this timeline, whose last sequence
// number is last, has never been in: it lies after a point where the store diverged. The store
// is then an older copy of the one that r is from. from is the era in which they may have begun
// to differ. A revision of an era too old to be remembered is not ahead.
func (t Timeline) Ahead(r Rev, last uint64) (from Era, ahead bool) {
	if r.IsZero() || len(t) == 0 || t.Known(r, last) {
		return Era{}, false
	}
	for i, e := range t {
		if e.ID != r.Inc {
			continue
		}
		if r.N < e.First {
			return Era{}, false // no peer ever got that
		}
		return t[min(i+1, len(t)-1)], true
	}
	if r.N < t[0].First {
		return Era{}, false
	}
	for _, e := range t {
		if e.First <= r.N+1 {
			from = e
		}
	}
	return from, true
}

// NewID returns 128 random bits as text.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
