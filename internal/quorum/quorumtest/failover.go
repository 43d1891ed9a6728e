package quorumtest

import (
	"math/rand/v2"
	"time"
)

// Loss is how a leader is lost.
type Loss int

// Losses.
const (
	Killed Loss = iota // the process ends, and its connections close
	Frozen             // it hangs, or its power is cut: nobody is told
	CutOff             // no message passes from it or to it
)

// Failover is the time from the loss of a leader to the next acknowledged write, on a LAN (1–10
// ms a message) with disks that take 1–8 ms a sync. Zero: there was none in 20 s.
func Failover(seed uint64, loss Loss) (after time.Duration, err error) {
	seeded(seed, func(r *rand.Rand) {
		s := newSim(r, Options{Servers: 3, Clients: 1, Probe: true})
		s.start()
		s.runUntil(s.between(1200*time.Millisecond, 1800*time.Millisecond))
		l := s.leader()
		if l == nil {
			return
		}
		s.check.healedAt = s.now
		switch loss {
		case Killed:
			l.stop(false)
		case Frozen:
			l.freeze(true)
		case CutOff:
			s.net.isolate(l.place, true, true)
		}
		for s.check.firstAck == 0 && s.now < s.check.healedAt+20*time.Second && !s.stopped {
			s.runUntil(s.now + 100*time.Millisecond)
		}
		after, err = max(0, s.check.firstAck-s.check.healedAt), s.result.Violation
	})
	return after, err
}
