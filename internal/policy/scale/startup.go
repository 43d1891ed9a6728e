package scale

import "time"

// StartUp learns how long a replica of a service takes from being ordered to its
// first request. The zero value knows nothing.
type StartUp struct{ mean, deviation time.Duration }

// Observe takes the time that one start took; what is not above zero says nothing.
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

// Time that a start takes, to be reckoned with: the mean and a deviation; 0 as long
// as nothing is known.
func (s *StartUp) Time() time.Duration { return s.mean + s.deviation }

// horizon in epochs: what is ordered now answers from the epoch after its start on.
func (s *StartUp) horizon(epoch time.Duration) int {
	return min(1+int((s.Time()+epoch-1)/epoch), MaxHorizon)
}
