package life

import "time"

// Isolation is the doubt of an orchestrator that hears of none of its peers. That
// all of them ended at the same moment is possible; that it is itself cut off is
// likely. To replace what they run would be wrong then, and nobody is there to
// replace it: when the link is back the first peer that is heard would get what
// runs on all others. The zero value has no doubt. It is a value: Look returns
// the next one.
type Isolation struct {
	since time.Time
	alone bool
}

// Alone says that the orchestrator hears of nobody: nothing is to be replaced.
func (i Isolation) Alone() bool { return i.alone }

// Look is the doubt after the peers were judged at now. silent: all of them are
// suspect, and there are some. elsewhere is when somebody was heard last who is no
// peer, such as the tier above, and who is reached by the same ways: an answer
// after the doubt began ends it, since the peers are then really away. Zero is
// nobody.
//
// back: it is likely to have been cut off, and is no longer. Whoever is not heard
// yet is to get the time that it would get after a start, since connections do
// not come back at the same moment.
func (i Isolation) Look(now time.Time, silent bool, elsewhere time.Time) (next Isolation, back bool) {
	switch {
	case !silent:
		return Isolation{}, i.alone
	case i.since.IsZero():
		return Isolation{since: now, alone: true}, false
	case i.alone && elsewhere.After(i.since):
		// Remembered until a peer is heard: silence alone does not begin another.
		return Isolation{since: i.since}, now.Sub(i.since) > answerWithin
	}
	return i, false
}

// answerWithin is how long an answer from elsewhere may take where nobody is cut
// off.
const answerWithin = 5 * time.Second
