package life

import (
	"fmt"
	"iter"
	"time"
)

const (
	// DefaultInterval is assumed between reports of a peer that named none.
	DefaultInterval = 10 * time.Second
	// AnnouncedGrace is how much longer replacement waits for a peer that
	// announced a restart.
	AnnouncedGrace = 60 * time.Second
)

// SilenceLimit is how long a peer that reports every interval may be silent
// before it is suspect: two reports lost and half an interval of delay.
func SilenceLimit(interval time.Duration) time.Duration {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return interval * 5 / 2
}

// Peer is what an orchestrator knows about one peer (a worker, or at the root a
// cluster) when it judges. Times carry monotonic readings or are virtual; they
// are the orchestrator's own.
type Peer struct {
	// Heard is when it last reported; zero: not since this orchestrator started.
	Heard time.Time
	// Interval between its reports, as agreed; DefaultInterval if not positive.
	Interval time.Duration
	// Connected is whether its connection is open.
	Connected bool
	// Impaired is why it says itself that it cannot be counted on; "" if it does not.
	Impaired string
	// Since is Verdict.Since of the last judgement: zero if it was not suspect.
	Since time.Time
}

// Verdict about a peer. Heard and Since go into Peer for the next judgement.
type Verdict struct {
	// Suspect peers get no new work, and routers prefer others.
	Suspect bool
	// Since is when suspicion began, from which replacement is counted.
	Since time.Time
	// Heard is from when silence is counted. It differs from Peer.Heard where the
	// orchestrator had reason to doubt itself.
	Heard time.Time
	// Why in words; empty if not suspect.
	Why string
}

// Judge says whether a peer is suspect: its connection is closed, it has been
// silent for SilenceLimit, or it says so itself. An orchestrator that itself stalled (Stalled) cannot
// tell its own silence from that of others: it begins to count anew, both the
// silence and the time to replacement. So does one that has just started and has
// not heard of the peer yet. A closed connection is a fact even then: the peer
// gets no new work, but replacement waits from now.
func Judge(now time.Time, p Peer, selfStalled bool) Verdict {
	doubt := selfStalled || p.Heard.IsZero()
	v := Verdict{Heard: p.Heard}
	if doubt {
		v.Heard = now
	}
	limit := SilenceLimit(p.Interval)
	silence := now.Sub(v.Heard)
	switch {
	case !p.Connected:
		v.Suspect, v.Why = true, "its connection is closed"
		v.Since = now
	case p.Impaired != "":
		v.Suspect, v.Why = true, p.Impaired
		v.Since = now
	case silence >= limit:
		v.Suspect, v.Why = true, fmt.Sprintf("silent for %s, longer than %s", silence.Round(100*time.Millisecond), limit)
		// Not now: how often it is judged must not delay the replacement.
		v.Since = v.Heard.Add(limit)
	default:
		return v
	}
	if !p.Since.IsZero() && !doubt && p.Since.Before(v.Since) {
		v.Since = p.Since
	}
	return v
}

// Quiet reports whether a peer has been silent for so long that, if all others are
// too and one is suspect, it is likely that they fell silent at the same moment, and
// that the reason is here. Reports of peers lie within an interval of each other: when
// the first is suspect, what ended then has ended at least this long ago for all.
func Quiet(now time.Time, p Peer) bool {
	interval := p.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	return now.Sub(p.Heard) >= SilenceLimit(interval)-interval
}

// Stalled reports whether an orchestrator that meant to judge every tick, and
// last did so gap ago, must doubt itself: it lost as much time as lies between
// two reports of a peer. interval is that of the peer in question, or the
// shortest of all: a longer one leaves the most talkative peers accused. A shorter stall, after which reports are read
// before the
// next, cannot make a punctual peer suspect.
func Stalled(gap, tick, interval time.Duration) bool {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return gap-max(0, tick) >= interval
}

// MaxLook bounds what NextLook returns.
const MaxLook = time.Minute

// NextLook is how long an orchestrator that has judged all its peers at now, and
// for which nothing else is due, may wait before it judges again: until a tick
// before the first of them would be suspect of silence. The tick is what it needs
// to learn that it was itself away, and to read what was said meanwhile (Stalled
// with the returned time as its tick). It is at least one tick, which is the whole
// answer while a peer is suspect, and at most MaxLook.
func NextLook(now time.Time, tick time.Duration, peers iter.Seq[Peer]) time.Duration {
	look := MaxLook
	for p := range peers {
		if !p.Since.IsZero() {
			return tick
		}
		look = min(look, p.Heard.Add(SilenceLimit(p.Interval)).Sub(now)-tick)
	}
	return max(look, tick)
}

// ReplaceAt is when the instances of a suspect peer are to be replaced if it is
// not heard of before: after (a service's replace_after; 0 at once, negative
// never, as for those with a pinned volume) from suspicion, AnnouncedGrace later
// if it announced a restart. ok is false where they are not to be replaced.
func (v Verdict) ReplaceAt(after time.Duration, announced bool) (at time.Time, ok bool) {
	if !v.Suspect || after < 0 {
		return time.Time{}, false
	}
	if announced {
		after += AnnouncedGrace
	}
	return v.Since.Add(after), true
}

// Replace reports whether ReplaceAt has come.
func (v Verdict) Replace(now time.Time, after time.Duration, announced bool) bool {
	at, ok := v.ReplaceAt(after, announced)
	return ok && !now.Before(at)
}
