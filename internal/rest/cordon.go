package rest

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What a root and a cluster do alike with a cordon.

// NextCordon is what a request makes of a cordon (nil: there is none yet). Asked
// for again without anything new it stays as it is, and a drain goes on.
func NextCordon(old *wire.Cordon, q rpc.CordonRequest, by string, now time.Time) *wire.Cordon {
	if old != nil && (old.Drain || !q.Drain) && (q.Reason == "" || q.Reason == old.Why) {
		return old
	}
	next := &wire.Cordon{By: by, At: now.Round(0), Why: q.Reason, Drain: q.Drain}
	if old != nil {
		next.Drain = next.Drain || old.Drain
		if next.Why == "" {
			next.Why = old.Why
		}
	}
	return next
}

// SameCordon compares two cordons.
func SameCordon(a, b *wire.Cordon) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.By == b.By && a.Why == b.Why && a.Drain == b.Drain && a.At.Equal(b.At)
}

// CordonWords says what was done to have a cordon of c.
func CordonWords(c *wire.Cordon, by string) string {
	what := "uncordoned"
	if c != nil {
		if what = "cordoned"; c.Drain {
			what = "draining"
		}
	}
	if by != "" {
		what += ", by " + by
	}
	if c != nil && c.Why != "" {
		what += ": " + c.Why
	}
	return what
}
