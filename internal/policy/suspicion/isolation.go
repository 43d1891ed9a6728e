package suspicion

import "time"

// Isolation is the doubt of an orchestrator that hears none of its peers: it is more likely cut off
// than all peers have failed at once. Replacing their instances would then be wrong: when the link
// returns, the first peer that reports would get the instances of all others. The zero value has no
// doubt. It is a value: Look returns the next one.
type Isolation struct {
	since time.Time
	alone bool
}

// Alone says that the orchestrator hears nobody and must replace nothing.
func (i Isolation) Alone() bool { return i.alone }

// Since is when the doubt began, including one that an answer from elsewhere has ended while no
// peer has reported since; zero if there is none.
func (i Isolation) Since() time.Time { return i.since }

// Elsewhere is the state of a host that is no peer but is reached over the same links, such as the
// tier above. The zero value is none.
type Elsewhere struct {
	Answered time.Time // last answer; the orchestrator asks when doubt begins
	Lost     time.Time // when a question last went unanswered, or the link closed
}

// Look returns the doubt after the peers were judged at now. silent: there are peers and none is
// heard; a peer that got another chance and has not reported yet counts as not heard. A peer that
// reports ends the doubt, and so does an answer from elsewhere.
//
// over: the doubt has just ended. Silence before that proves nothing, so silent peers get another
// chance. cut: the orchestrator was cut off. Closed connections then prove nothing either, since
// peers reconnect one after the other; give them the time that they get after a start. Without cut,
// a connection closed before Since is a fact. One closed later is not: the interruption may have
// ended at this very moment, and a peer that reconnects gives up its old connection.
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

// answerWithin bounds an answer over links that work. A packet that an interruption of two seconds
// has lost is retransmitted later than that.
const answerWithin = time.Second
