package route

import "time"

// The bandwidth of the line to another place is learnt, for each direction, from the large bodies
// that cross it anyway. If only the line held a body up, and not a client, an instance or a queue,
// the time until it arrived is a sample; otherwise it is a lower bound. An unknown line counts as
// costing no time, so that it is tried.
const (
	// LargeBody is the smallest size of a sample in bytes: less fits into buffers.
	LargeBody = 64 << 10
	// BoundBody is the smallest size of a lower bound in bytes: part of a smaller body may have
	// waited in buffers for its reader.
	BoundBody = 256 << 10
	// LineAge is when an estimate that no body has confirmed is forgotten, so that the line is
	// tried again.
	LineAge = 5 * time.Minute
	// Weights of a body that was faster than expected, and of one that was slower, if it has
	// BoundBody; smaller ones weigh proportionally less. The line can carry what it has carried; if
	// it carried less, it may have been shared.
	lineFaster, lineSlower = 0.5, 0.25
)

// Rate is an estimate of one direction of a line. The zero value knows nothing.
type Rate struct {
	bps float64
	at  time.Time // of the newest body
}

// Known is the estimate at now in bytes per second, 0 if there is none or it is too old.
func (x Rate) Known(now time.Time) float64 {
	if x.Open(now) {
		return 0
	}
	return x.bps
}

// Open says whether the line is to be tried at now: no body that could show its rate has crossed it
// lately.
func (x Rate) Open(now time.Time) bool { return now.Sub(x.at) >= LineAge }

// saw adds a body of this size. held: only the line has held it up.
func (x Rate) saw(now time.Time, bytes int64, bps float64, held bool) Rate {
	x.bps = x.Known(now)
	counts := min(1, float64(bytes)/BoundBody)
	switch {
	case x.bps == 0 && held:
		x.bps = bps
	case x.bps == 0: // still unknown, but it was tried
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
	// Trial is the body on its way there whose time will show an unknown rate.
	Trial Trial
	// Clear is when the bodies that were sent there will have arrived, by the known rate; at most
	// mostAhead from the newest of them.
	Clear time.Time
}

// mostAhead bounds what bodies on the way hold up the next one: a client may break off a long one.
const mostAhead = 10 * time.Second

// Newest is when something was last learnt of it; zero: never.
func (l *Line) Newest() time.Time {
	if l.There.at.After(l.Back.at) {
		return l.There.at
	}
	return l.Back.at
}

// Until is when the first of the estimates known at now expires; zero: none is known.
func (l *Line) Until(now time.Time) (until time.Time) {
	for _, x := range [...]Rate{l.There, l.Back} {
		if old := x.at.Add(LineAge); x.Known(now) > 0 && (until.IsZero() || old.Before(until)) {
			until = old
		}
	}
	return until
}

// Crossed adds a body that has crossed the line, there or back, at bps bytes per second. held: only
// the line has held it up. news: something was learnt.
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

// Try notes that a body is about to go there, and an answer is expected back, of these sizes, if
// they can show an unknown rate. Meanwhile an expired estimate is valid again, so that later
// requests do not follow them over a thin line. mine: call Tried afterwards. news: something has
// changed.
func (l *Line) Try(now time.Time, there, back int64) (mine, news bool) {
	if bps := l.There.Known(now); bps > 0 && there >= LargeBody {
		if l.Clear.Before(now) {
			l.Clear = now
		}
		took := min(time.Duration(float64(there)/bps*float64(time.Second)), mostAhead)
		if l.Clear = l.Clear.Add(took); l.Clear.Sub(now) > mostAhead {
			l.Clear = now.Add(mostAhead)
		}
		news = true
	}
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

// Tried ends the trial that Try began: the body has shown what it could.
func (l *Line) Tried() { l.Trial = Trial{} }

// Trial is a body whose rate is not known yet.
type Trial struct {
	Bytes int64 // 0: there is none
	Since time.Time
}

// trialPatience is how long a trial may take before it counts: most are over by then, and its time
// includes the work of the instance.
const trialPatience = time.Second

// network estimates from the trial how long a body of this size takes at now: at least what the
// trial has taken so far.
func (t Trial) network(bytes int64, now time.Time) (seconds float64) {
	if bytes <= 0 || t.Bytes <= 0 || now.IsZero() {
		return 0
	}
	return max(0, (now.Sub(t.Since)-trialPatience).Seconds()) * min(1, float64(bytes)/float64(t.Bytes))
}
