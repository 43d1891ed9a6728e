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

// Since is when the doubt began, or the last one that nobody has ended by being heard;
// zero if there is none.
func (i Isolation) Since() time.Time { return i.since }

// Elsewhere is what is known of somebody who is no peer and is reached by the same
// ways, such as the tier above. The zero value is nobody.
type Elsewhere struct {
	Answered time.Time // last; the orchestrator asks when doubt begins
	Lost     time.Time // when a question was last found unanswered, or the link closed
}

// Look is the doubt after the peers were judged at now. silent: none of them is
// heard, and there are some; those that were given another chance and did not use
// it yet are not heard. An answer from elsewhere ends the doubt, and so
// does a peer that is heard.
//
// over: the doubt has just ended. Silence before it proves nothing: whoever was
// silent is to get another chance. cut: it was cut off, so that connections do
// not come back at the same moment, and those that are closed prove nothing
// either; the time that peers get after a start is right. Without cut, a connection
// that was closed before Since is a fact. One that was closed after it is none: the
// interruption may have ended in the moment of the look, and a peer that finds its way
// back gives its old connection up.
func (i Isolation) Look(now time.Time, silent bool, e Elsewhere) (next Isolation, over, cut bool) {
	switch {
	case !silent:
		return Isolation{}, i.alone, i.alone
	case i.since.IsZero():
		return Isolation{since: now, alone: true}, false, false
	case i.alone && e.Answered.After(i.since):
		atOnce := e.Answered.Sub(i.since) <= answerWithin && e.Lost.Before(i.since)
		// Remembered until a peer is heard: silence alone does not begin another.
		return Isolation{since: i.since}, true, !atOnce
	}
	return i, false, false
}

// answerWithin is how long an answer takes where nobody is cut off. A packet that
// was lost to an interruption of two seconds is sent again later than that.
const answerWithin = time.Second
