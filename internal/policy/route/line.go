package route

import "time"

// How wide the line to another place is, is learnt from the large bodies that cross it
// anyway, for each direction. What shows it is the time that a body took to arrive, if it
// was the line that held it up, and not a client, an instance or a queue: then it is a
// sample. Else it is no more than a lower bound. A line of which nothing is known counts
// as one that costs no time, so that it is tried.
const (
	// LargeBody is from how many bytes on a body is a sample: less fits into buffers.
	LargeBody = 64 << 10
	// BoundBody is from how many bytes on it is a lower bound, as a part of less may have
	// waited in buffers for its reader.
	BoundBody = 256 << 10
	// LineAge is when an estimate is forgotten that no body has confirmed: by then the
	// line is to be tried again.
	LineAge = 5 * time.Minute
	// Weights of a body that was faster than expected, and of one that was slower, if it
	// has BoundBody; smaller ones count less, in proportion. What the line has carried it
	// can carry, what it has not it may have shared.
	lineFaster, lineSlower = 0.5, 0.25
)

// Rate is an estimate of one direction of a line. The zero value knows nothing.
type Rate struct {
	bps float64
	at  time.Time // of the newest body
}

// Known is the estimate at now in bytes per second, 0 where there is none or it is too old.
func (x Rate) Known(now time.Time) float64 {
	if x.Open(now) {
		return 0
	}
	return x.bps
}

// Open says whether nothing is known of it at now: no body has crossed it lately that
// could have shown something.
func (x Rate) Open(now time.Time) bool { return now.Sub(x.at) >= LineAge }

// saw adds a body of so many bytes. Held: the line has held it up, and nothing else.
func (x Rate) saw(now time.Time, bytes int64, bps float64, held bool) Rate {
	x.bps = x.Known(now)
	counts := min(1, float64(bytes)/BoundBody)
	switch {
	case x.bps == 0 && held:
		x.bps = bps
	case x.bps == 0: // a lower bound of nothing, but something was tried
	case bps > x.bps:
		x.bps += counts * lineFaster * (bps - x.bps)
	case held:
		x.bps += counts * lineSlower * (bps - x.bps)
	default:
		return x // it says nothing
	}
	x.at = now
	return x
}

// Line is what is known of the line to another place. The zero value knows nothing.
type Line struct {
	There, Back Rate
	// Trial is the body that is on its way there to show what is not known at all.
	Trial Trial
}

// Newest is when something was learnt of it last; zero: never.
func (l *Line) Newest() time.Time {
	if l.There.at.After(l.Back.at) {
		return l.There.at
	}
	return l.Back.at
}

// Until is when something of what is known at now is too old; zero: nothing is known.
func (l *Line) Until(now time.Time) (until time.Time) {
	for _, x := range [...]Rate{l.There, l.Back} {
		if old := x.at.Add(LineAge); x.Known(now) > 0 && (until.IsZero() || old.Before(until)) {
			until = old
		}
	}
	return until
}

// Crossed adds a body of so many bytes that has crossed the line, there or back, at so
// many bytes per second. Held: the line has held it up, and nothing else. News: that has
// taught something.
func (l *Line) Crossed(now time.Time, back bool, bytes int64, bps float64, held bool) (news bool) {
	if bytes < LargeBody || !held && bytes < BoundBody || !positive(bps) {
		return false
	}
	x := &l.There
	if back {
		x = &l.Back
	}
	*x = x.saw(now, bytes, bps, held)
	return x.at.Equal(now)
}

// Try notes that a body of so many bytes is about to go there, and an answer of so many
// is to be expected, where that shows what is not known. What was known once holds again
// until they have shown something: who comes meanwhile shall not follow them over a thin
// line. Mine: Tried is to be called. News: something has changed.
func (l *Line) Try(now time.Time, there, back int64) (mine, news bool) {
	if back >= LargeBody && l.Back.bps > 0 && l.Back.Open(now) {
		l.Back.at, news = now, true
	}
	if there >= LargeBody && l.There.Open(now) {
		switch {
		case l.There.bps > 0:
			l.There.at, news = now, true
		case l.Trial.Bytes == 0:
			l.Trial, mine, news = Trial{Bytes: there, Since: now}, true, true
		}
	}
	return mine, news
}

// Tried ends what Try has begun: the body has shown what it could.
func (l *Line) Tried() { l.Trial = Trial{} }

// Trial is a body of which nobody knows yet how fast it goes.
type Trial struct {
	Bytes int64 // 0: there is none
	Since time.Time
}

// trialPatience is how long a trial may take before it says something: most are over by
// then, and what the instance works is in it too.
const trialPatience = time.Second

// network is how long so many bytes take at now, going by the trial: what it has taken so
// far is the least.
func (t Trial) network(bytes int64, now time.Time) (seconds float64) {
	if bytes <= 0 || t.Bytes <= 0 || now.IsZero() {
		return 0
	}
	return max(0, (now.Sub(t.Since)-trialPatience).Seconds()) * min(1, float64(bytes)/float64(t.Bytes))
}
