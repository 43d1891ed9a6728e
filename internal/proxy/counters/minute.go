package counters

import "time"

// Minute counts what happened in the last minute, in steps of ten seconds. It is not safe for
// concurrent use.
type Minute struct {
	counts [6]uint32
	tenth  int64 // number of the newest step
}

const tenth = 10 * time.Second

// Add counts one at now.
func (m *Minute) Add(now time.Time) {
	m.advance(now)
	m.counts[m.tenth%int64(len(m.counts))]++
}

// Sum is how many there were in the minute before now.
func (m *Minute) Sum(now time.Time) (n int) {
	m.advance(now)
	for _, c := range m.counts {
		n += int(c)
	}
	return n
}

// advance empties what is older than a minute.
func (m *Minute) advance(now time.Time) {
	t := Stamp(now) / int64(tenth)
	for k := max(m.tenth+1, t-int64(len(m.counts))+1); k <= t; k++ {
		m.counts[k%int64(len(m.counts))] = 0
	}
	m.tenth = max(m.tenth, t)
}
