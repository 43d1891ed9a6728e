package counters

// Mean of the newest numbers: an older one counts less by meanGain for each newer one. It is
// not safe for concurrent use.
type Mean struct{ n, value float64 }

const meanGain = 0.05

// Add adds a number; one below 0 is not known and does not count.
func (m *Mean) Add(v int64) {
	if v < 0 {
		return
	}
	m.n = min(m.n+1, 1/meanGain)
	m.value += (float64(v) - m.value) / m.n
}

// Value is the mean, 0 of nothing.
func (m *Mean) Value() float64 { return m.value }
