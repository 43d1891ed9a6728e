package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// world carries out what Decide says: instances take a while to be ready, die, come back
// and fail, in seconds.
type world struct {
	rules    Rules
	promised int
	units    []*unit
	target   int
	state    State
	now      time.Time
	slow     int
	bad      map[int]bool // programs that never become ready
	crash    map[int]bool // programs that end
	before   int          // how many of the target were up when it was decided last
}

type unit struct {
	ordinal int
	extra   bool
	program int
	starts  int // ticks until it is ready
	since   time.Time
	ready   bool
	failed  bool
}

func newWorld(n int, r Rules) *world {
	w := &world{rules: r, promised: n, now: time.Unix(1e9, 0), bad: map[int]bool{}, crash: map[int]bool{}}
	for o := range n {
		w.units = append(w.units, &unit{ordinal: o, ready: true})
	}
	return w
}

// to begins a rollout to a program.
func (w *world) to(program int) {
	w.target, w.state = program, State{Moved: w.now}
}

func (w *world) view() State {
	s := w.state
	s.Promised, s.Units = w.promised, nil
	for _, u := range w.units {
		v := Unit{Name: fmt.Sprint("web.", u.ordinal), Ordinal: u.ordinal, Extra: u.extra, Updated: u.program == w.target, Placed: true, Ready: u.ready, Up: u.ready, Since: u.since}
		if u.failed {
			v.Failed = "exited with 1"
		}
		s.Units = append(s.Units, v)
	}
	return s
}

// tick lets a second pass, and one step be taken.
func (w *world) tick() Action {
	w.now = w.now.Add(time.Second)
	for _, u := range w.units {
		switch {
		case u.ready || u.failed || w.bad[u.program]:
		case w.crash[u.program]:
			u.failed = true
		case u.starts > 0:
			u.starts--
		default:
			u.ready, u.since = true, w.now
		}
	}
	w.before = 0
	for _, u := range w.units {
		if u.program == w.target && u.ready {
			w.before++
		}
	}
	a := Decide(w.rules, w.view(), w.now)
	w.state.Failed, w.state.Best, w.state.Moved, w.state.Step, w.state.Stepped = a.Failed, a.Best, a.Moved, a.Step, a.Stepped
	for _, o := range a.Update {
		for _, u := range w.units {
			if u.ordinal == o {
				u.program, u.ready, u.failed, u.starts = w.target, false, false, w.slow
			}
		}
	}
	var extras []*unit
	for _, u := range w.units {
		if u.extra {
			extras = append(extras, u)
		}
	}
	for n := len(extras); n < a.Surge; n++ {
		w.units = append(w.units, &unit{ordinal: 1000 + n, extra: true, program: w.target, starts: w.slow})
	}
	for n := len(extras); n > a.Surge; n-- {
		w.units = w.units[:len(w.units)-1]
	}
	return a
}

func (w *world) ready() (n int) {
	for _, u := range w.units {
		if u.ready {
			n++
		}
	}
	return n
}

// within what may be missing and what may be too many, at every step.
func (w *world) check(t *testing.T) {
	t.Helper()
	if n := w.ready(); n < w.promised-w.rules.Unavailable {
		t.Fatalf("%d of %d are ready, %d may be missing: %+v", n, w.promised, w.rules.Unavailable, w.view())
	}
	if n := len(w.units); n > w.promised+w.rules.Surge {
		t.Fatalf("%d run, at most %d+%d may", n, w.promised, w.rules.Surge)
	}
}

func rules(rng *rand.Rand, n int) Rules {
	r := Rules{Surge: rng.IntN(4), Unavailable: rng.IntN(min(n, 3) + 1), MinReady: time.Duration(rng.IntN(4)) * time.Second, Deadline: 60 * time.Second}
	if r.Surge+r.Unavailable == 0 {
		r.Surge = 1
	}
	return r
}

// Whatever the numbers, as many as promised are ready at every moment, never more run
// than may, and it ends with all of them updated and nothing left over.
func TestARolloutKeepsWhatIsPromised(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(12)
		w := newWorld(n, rules(rng, n))
		w.slow = rng.IntN(5)
		w.to(1)
		done := false
		for range 400 {
			a := w.tick()
			w.check(t)
			if a.Failed != "" {
				t.Fatalf("seed %d: it failed: %s", seed, a.Failed)
			}
			if done = a.Done; done {
				break
			}
		}
		if !done || len(w.units) != n {
			t.Fatalf("seed %d: done %v with %d of %d", seed, done, len(w.units), n)
		}
		for _, u := range w.units {
			if u.program != 1 {
				t.Fatalf("seed %d: web.%d runs program %d", seed, u.ordinal, u.program)
			}
		}
	}
}

// A program that does not become ready, or ends, stops it: with words, with all that was
// promised, and without touching more than the surge and what may be missing. The program
// before brings everything back as it was.
func TestABadProgramStopsAndIsUndone(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 1 + rng.IntN(12)
		w := newWorld(n, rules(rng, n))
		w.bad[1], w.crash[1] = seed%2 == 0, seed%2 == 1
		w.to(1)
		var a Action
		for range 200 {
			a = w.tick()
			w.check(t)
		}
		want := "nothing got any further for 1m0s: "
		if w.crash[1] {
			want = "exited with 1"
		}
		if !strings.Contains(a.Failed, want) || len(a.Update) != 0 {
			t.Fatalf("seed %d: %+v", seed, a)
		}
		touched := 0
		for _, u := range w.units {
			if !u.extra && u.program == 1 {
				touched++
			}
		}
		if touched > w.rules.Unavailable {
			t.Fatalf("seed %d: %d were touched, %d may be missing", seed, touched, w.rules.Unavailable)
		}
		w.to(0)
		for range 200 {
			if a = w.tick(); a.Done {
				break
			}
			w.check(t)
		}
		if !a.Done || len(w.units) != n {
			t.Fatalf("seed %d: %+v with %d of %d", seed, a, len(w.units), n)
		}
		for _, u := range w.units {
			if u.program != 0 || !u.ready {
				t.Fatalf("seed %d: web.%d runs program %d", seed, u.ordinal, u.program)
			}
		}
	}
}

// A third program, and a fourth, before the one before was through.
func TestAnotherProgramInTheMiddle(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(10)
		w := newWorld(n, rules(rng, n))
		w.slow = rng.IntN(4)
		for p := 1; p <= 4; p++ {
			w.bad[p] = p < 4 && rng.IntN(3) == 0
			w.to(p)
			for range rng.IntN(15) {
				w.tick()
				w.check(t)
			}
		}
		done := false
		for range 600 {
			if done = w.tick().Done; done {
				break
			}
			w.check(t)
		}
		if !done || len(w.units) != n {
			t.Fatalf("seed %d: done %v with %d of %d: %+v", seed, done, len(w.units), n, w.view())
		}
	}
}

// What is paused or has failed updates nothing and adds nothing.
func TestNothingIsDoneWhilePaused(t *testing.T) {
	w := newWorld(4, Rules{Surge: 1, MinReady: time.Second, Deadline: 10 * time.Second})
	w.to(1)
	w.state.Held = "paused by ann"
	for range 30 {
		if a := w.tick(); len(a.Update) > 0 || a.Surge > 0 || a.Failed != "" || a.Why != "paused by ann" {
			t.Fatalf("%+v", a)
		}
	}
	if len(w.units) != 4 {
		t.Errorf("%d run", len(w.units))
	}
}

// Gates: the next is not updated before the one before was ready for long enough, and
// what gets no further fails at its deadline.
func TestGates(t *testing.T) {
	r := Rules{Surge: 1, MinReady: 5 * time.Second, Deadline: time.Minute}
	now := time.Unix(1e9, 0)
	s := State{Promised: 2, Moved: now, Units: []Unit{
		{Name: "a", Ordinal: 0, Placed: true, Ready: true}, {Name: "b", Ordinal: 1, Placed: true, Ready: true},
		{Name: "c", Ordinal: 9, Extra: true, Placed: true, Updated: true, Ready: true, Since: now},
	}}
	for after, want := range map[time.Duration]int{0: 0, 4 * time.Second: 0, 5 * time.Second: 1} {
		if a := Decide(r, s, now.Add(after)); len(a.Update) != want || a.Failed != "" {
			t.Errorf("after %s: %+v", after, a)
		}
	}
	s.Units[2].Ready = false
	s.Units[2].Why = "GET /ready: 503"
	a := Decide(r, s, now.Add(time.Minute))
	if a.Failed != "nothing got any further for 1m0s: c is not ready: GET /ready: 503" || a.Surge != 1 {
		t.Errorf("%+v", a)
	}
	s.Units[2] = Unit{Name: "c", Ordinal: 9, Extra: true, Why: "2 workers: 2 are full"}
	if a := Decide(r, s, now); !strings.Contains(a.Why, "2 workers: 2 are full; make room, or let one be missing: rollout: {max_unavailable: 1}") {
		t.Errorf("%+v", a)
	}
	// One that may be missing needs no room.
	r.Unavailable = 1
	if a := Decide(r, s, now); len(a.Update) != 1 || a.Update[0] != 0 {
		t.Errorf("%+v", a)
	}
}

// Those that do not answer go first: nobody misses them. But not more of them at a time
// than of others, since they may be about to answer.
func TestWhoDoesNotAnswerGoesFirst(t *testing.T) {
	s := State{Promised: 4, Units: []Unit{
		{Ordinal: 0, Placed: true, Ready: true}, {Ordinal: 1, Placed: true}, {Ordinal: 2, Placed: true}, {Ordinal: 3, Placed: true, Busy: true},
	}}
	a := Decide(Rules{Surge: 1}, s, time.Unix(1e9, 0))
	if len(a.Update) != 1 || a.Update[0] != 1 {
		t.Errorf("%+v", a)
	}
}
