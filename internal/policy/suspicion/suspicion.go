package suspicion

import (
	"fmt"
	"iter"
	"time"
)

const (
	// DefaultInterval is the report interval of a peer that named none.
	DefaultInterval = 10 * time.Second
	// AnnouncedGrace is the additional time before the instances of a peer that announced a restart
	// are replaced.
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

// Peer is what an orchestrator knows about a peer (a worker, or at the root a cluster). Times are
// the orchestrator's own and carry monotonic readings, or are virtual.
type Peer struct {
	// Heard is its last report; zero: none since this orchestrator started.
	Heard time.Time
	// Interval between its reports, as agreed; DefaultInterval if not positive.
	Interval time.Duration
	// Connected is whether its connection is open.
	Connected bool
	// Impaired is why it reports itself as unreliable; "" if it does not.
	Impaired string
	// Since is Verdict.Since of the last judgement; zero if it was not suspect.
	Since time.Time
}

// Verdict about a peer. Heard and Since go into Peer for the next judgement.
type Verdict struct {
	// Suspect peers get no new work, and routers prefer others.
	Suspect bool
	// Since is when suspicion began, from which replacement is counted.
	Since time.Time
	// Heard is when silence began to count. It differs from Peer.Heard if the orchestrator doubted
	// itself.
	Heard time.Time
	// Why in words; empty if not suspect.
	Why string
}

// Judge says whether a peer is suspect: its connection is closed, it has been silent for
// SilenceLimit, or it reports itself as unreliable. An orchestrator that stalled (Stalled), or has
// just started and not heard of the peer, cannot blame the peer for the silence: silence and the
// time to replacement count from now. A closed connection is a fact even then: the peer gets no new
// work, but replacement counts from now.
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
		// Rather than now: the interval of judgements must not delay the replacement.
		v.Since = v.Heard.Add(limit)
	default:
		return v
	}
	if !p.Since.IsZero() && !doubt && p.Since.Before(v.Since) {
		v.Since = p.Since
	}
	return v
}

// Quiet reports whether a peer has been silent so long that, if all others are too and one is
// suspect, they probably fell silent at the same moment, and the fault is here. Reports of peers
// lie within one interval of each other: when the first peer is suspect, all have been silent for
// at least this long.
func Quiet(now time.Time, p Peer) bool {
	interval := p.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	return now.Sub(p.Heard) >= SilenceLimit(interval)-interval
}

// Stalled reports whether an orchestrator that judges every tick, and last did so gap ago, must
// doubt itself: it lost as much time as lies between two reports of a peer. interval is that of the
// peer in question, or the shortest of all peers. After a shorter stall, reports are read before
// the next judgement, so that no punctual peer becomes suspect.
func Stalled(gap, tick, interval time.Duration) bool {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return gap-max(0, tick) >= interval
}

// maxLook bounds what NextLook returns.
const maxLook = time.Minute

// NextLook is how long an orchestrator that has judged its peers at now may wait before it judges
// again: until one tick before the first would be suspect. It uses that tick to notice that it was
// itself stalled (Stalled with the returned time as its tick) and to read pending reports. NextLook
// is at least one tick, exactly one while a peer is suspect, and at most maxLook.
func NextLook(now time.Time, tick time.Duration, peers iter.Seq[Peer]) time.Duration {
	look := maxLook
	for p := range peers {
		if !p.Since.IsZero() {
			return tick
		}
		look = min(look, p.Heard.Add(SilenceLimit(p.Interval)).Sub(now)-tick)
	}
	return max(look, tick)
}

// replaceAt is when the instances of a suspect peer are replaced unless it reports before: after
// (replace_after of a service; 0 at once; negative never, as with a pinned volume) the suspicion
// began, and AnnouncedGrace later if it announced a restart. ok is false if they are not replaced.
func (v Verdict) replaceAt(after time.Duration, announced bool) (at time.Time, ok bool) {
	if !v.Suspect || after < 0 {
		return time.Time{}, false
	}
	if announced {
		after += AnnouncedGrace
	}
	return v.Since.Add(after), true
}

// Replace reports whether replaceAt has come.
func (v Verdict) Replace(now time.Time, after time.Duration, announced bool) bool {
	at, ok := v.replaceAt(after, announced)
	return ok && !now.Before(at)
}
