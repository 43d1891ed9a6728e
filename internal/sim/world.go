package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// World is virtual time. Make one with New.
type World struct {
	seed   uint64
	now    time.Duration
	seq    uint64
	events []event // a heap by (at, seq)
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// epoch is when every World begins: any fixed instant but the zero Time, which means "never" to
// deciders.
var epoch = time.Unix(1_600_000_000, 0).UTC()

// New returns a world without events.
func New(seed uint64) *World { return &World{seed: seed} }

// Now is the time to pass to deciders.
func (w *World) Now() time.Time { return epoch.Add(w.now) }

// Elapsed is the time since the world began.
func (w *World) Elapsed() time.Duration { return w.now }

// After schedules f; a negative delay is none.
func (w *World) After(d time.Duration, do func()) {
	w.seq++
	w.events = append(w.events, event{w.now + max(d, 0), w.seq, do})
	for i := len(w.events) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.events[i].before(w.events[up]) {
			break
		}
		w.events[i], w.events[up] = w.events[up], w.events[i]
		i = up
	}
}

// Every calls f each d, first after d, as long as it returns true. d is above 0.
func (w *World) Every(d time.Duration, do func() bool) {
	w.After(d, func() {
		if do() {
			w.Every(d, do)
		}
	})
}

// Run runs the events of the next d and advances the time by d.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := w.pop()
		w.now = e.at
		e.do()
	}
	w.now = end
}

func (w *World) pop() event {
	h := w.events
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	w.events = h
	return first
}

// Rand is a random source for one purpose. It depends only on the seed of the world and the
// purpose.
func (w *World) Rand(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // a hash never fails
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}
