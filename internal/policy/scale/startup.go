package scale

import "time"

// StartUp learns the time from ordering a replica of a service to its first request. The zero value
// knows nothing.
type StartUp struct{ mean, deviation time.Duration }

// Observe takes the duration of one start; it ignores values of zero or less.
func (s *StartUp) Observe(took time.Duration) {
	switch {
	case took <= 0:
	case s.mean == 0:
		s.mean, s.deviation = took, took/4
	default:
		off := max(took-s.mean, s.mean-took)
		s.mean += (took - s.mean) / 4
		s.deviation += (off - s.deviation) / 4
	}
}

// Time is the start-up time to plan with: the mean plus a deviation; 0 if unknown.
func (s *StartUp) Time() time.Duration { return s.mean + s.deviation }

// horizon in epochs: a replica ordered now answers from the epoch after its start. A quarter of an
// epoch is not worth looking further.
func (s *StartUp) horizon(epoch time.Duration) int {
	return min(1+int((s.Time()+epoch-epoch/4)/epoch), MaxHorizon)
}
