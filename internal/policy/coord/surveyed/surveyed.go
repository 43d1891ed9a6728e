package surveyed

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/policy/coord"
)

// keeps is for how long a worker keeps measuring those that it was asked about.
const keeps = time.Minute

// Workers measure each other. They are numbered from 0.
type Workers struct {
	// Now is their time.
	Now time.Time
	// Tables and Names by number.
	Tables []*coord.Table
	Names  []string

	rtt   func(i, j int) time.Duration
	index map[string]int
	rng   *rand.Rand
}

// New has n workers that know nothing yet. The round trip from one to another is asked for
// each time that it is measured; 0: there is no answer.
func New(n int, rtt func(i, j int) time.Duration, seed uint64) *Workers {
	w := &Workers{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rtt: rtt, index: make(map[string]int, n),
		rng: rand.New(rand.NewPCG(seed, 5))}
	for i := range n {
		name := "w" + strconv.Itoa(i)
		w.index[name] = i
		w.Names = append(w.Names, name)
		w.Tables = append(w.Tables, coord.NewTable(seed^uint64(i)))
	}
	return w
}

// Survey is what a cluster has its workers measure: rounds, a second apart, after the last of
// which each keeps measuring those of its round for a minute.
func (w *Workers) Survey(rounds int) {
	asked := make([][]string, len(w.Tables))
	last := make([]time.Time, len(w.Tables))
	for second := range rounds + int(keeps/time.Second) {
		for _, i := range w.rng.Perm(len(w.Tables)) {
			if second < rounds {
				asked[i] = nil
				for _, j := range coord.Round(i, len(w.Tables), second, coord.AtOnce) {
					asked[i] = append(asked[i], w.Names[j])
					w.measure(i, j)
				}
				last[i] = w.Now
			}
			list, at := w.Tables[i].Due([][]string{asked[i]}, last[i], w.rng.Uint64(), w.Now)
			if len(list) == 0 || at.After(w.Now) {
				continue
			}
			for _, name := range list {
				w.measure(i, w.index[name])
			}
			last[i] = w.Now
		}
		w.Now = w.Now.Add(time.Second)
	}
}

// measure is one measurement, in which the other side says where it is.
func (w *Workers) measure(i, j int) {
	rtt := w.rtt(i, j)
	if rtt == 0 {
		w.Tables[i].Failed(w.Names[j], "no answer", w.Now)
		return
	}
	at := w.Tables[j].Own.Point
	// What is refused changes nothing but that it was tried, as it should.
	_ = w.Tables[i].Observe(w.Names[j], rtt, &at, w.Now)
}
